package serving

import (
	"net/http"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/config"
	"github.com/seed-4dac0d86/ldapd/directory"
	"github.com/seed-4dac0d86/ldapd/web"
	"github.com/seed-4dac0d86/ldapd/web/scim"
)

// SCIM returns the handler of SCIM, for requests below scim.Prefix. Its users and groups are those of the commands
// about people.
func SCIM(d *directory.Directory, c *config.Config, channel func(*http.Request) web.Channel) (http.Handler, error) {
	p := &c.People
	o := scim.Options{Base: p.Base, Users: p.Users, Groups: p.Groups, UserClass: p.UserClass, GroupClass: p.GroupClass, UserName: p.UserName, Attributes: c.SCIM, Channel: channel}
	if o.Member = config.MemberAttribute(p.GroupClass); o.Member == "memberUid" {
		o.Member = "" // posixGroup: its members are no names of entries
	}
	h, err := scim.New(d, o)
	if err != nil {
		return nil, &config.Error{Where: "scim.attributes", Text: err.Error()}
	}
	return h, nil
}
