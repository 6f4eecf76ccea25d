package directory

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/seed-4dac0d86/ldapd/directory/account"
	"github.com/seed-4dac0d86/ldapd/directory/auth"
	"github.com/seed-4dac0d86/ldapd/directory/internal/accountcheck"
	"github.com/seed-4dac0d86/ldapd/directory/internal/bind"
	"github.com/seed-4dac0d86/ldapd/directory/internal/identify"
	"github.com/seed-4dac0d86/ldapd/directory/internal/request"
	"github.com/seed-4dac0d86/ldapd/directory/internal/write"
	"github.com/seed-4dac0d86/ldapd/directory/settings"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/control"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	hot "github.com/seed-4dac0d86/ldapd/partition/write"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// The limits of resets, over all servers of a store.
const (
	resetsOfName    = 3  // for one account
	resetsOfAddress = 20 // from one address, or from one IPv6 network of 64 bits, whatever the names are
	resetsWithin    = time.Hour
)

// resetBound is the mechanism of an identity that has a ticket to set its password, for access rules.
const resetBound = "reset"

// resetSession says in the journal and in the access log that a password was reset by mail.
const resetSession = "reset by mail"

// A Reset is sent to the owner of an account who has forgotten the password.
type Reset struct {
	Ticket string // with it, ResetPassword sets the password, once
	Mail   string // the value of mail in the entry, whatever it is
	Name   string // the entry's DN
	Person string // what the entry calls the person
}

// A resetTicket lets somebody set the password of an entry as long as the entry has the password that it
// had when the ticket was made.
type resetTicket struct {
	Entry    string `json:"entry"`    // entryUUID
	Password []byte `json:"password"` // digest of the stored password
	Until    int64  `json:"until"`    // in Unix seconds
}

// NewReset returns the reset of the account that somebody on a channel means by a user name, a mail address
// or a DN. The ticket ends at the given time, and before if the password changes. NewReset fails if there is no such
// account, if it may not be reset by mail, or if there were too many requests. The error is for the
// log, because it says which of these is the case.
func (d *Directory) NewReset(ctx context.Context, c auth.Channel, asked string, until time.Time) (*Reset, error) {
	if err := d.admitReset(ctx, "address "+networkOf(c), resetsOfAddress); err != nil {
		return nil, fmt.Errorf("from this address: %w", err)
	}
	s := d.NewSession(c)
	defer s.Close()
	req := s.reading()
	defer req.Snapshot.Close()
	req.Judge.Unrestrict()
	who, err := meant(ctx, req, asked)
	if err != nil {
		return nil, err
	}
	e, err := s.mayReset(ctx, req, who)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", who.DN(), err)
	}
	r := &Reset{Name: who.DN(), Mail: mailOf(req, e, asked)}
	if r.Mail == "" {
		return nil, fmt.Errorf("%s: the entry has no mail", who.DN())
	}
	if r.Person = firstOf(req, e, "displayName", "cn"); r.Person == "" {
		r.Person = r.Name
	}
	if err := d.admitReset(ctx, "entry "+who.ID.String(), resetsOfName); err != nil {
		return nil, fmt.Errorf("%s: %w", who.DN(), err)
	}
	password, err := digest(ctx, req, who)
	if err == nil {
		r.Ticket, err = d.seal("reset", resetTicket{who.ID.String(), password, until.Unix()})
	}
	return r, err
}

var errResets = errors.New("too many requests within an hour")

// admitReset counts a request, and returns an error if there were too many. What cannot be counted is
// refused.
func (d *Directory) admitReset(ctx context.Context, what string, most int) error {
	mac := hmac.New(sha256.New, keyFor(d.server, "uses"))
	mac.Write([]byte(what))
	uses := &hot.Tally{Partition: d.server.Part, Key: [16]byte(mac.Sum(nil)), Within: resetsWithin}
	seen, err := uses.Recorded(ctx)
	if err == nil && len(seen) < most {
		if seen, err = account.Use(ctx, uses); len(seen) <= most && err == nil {
			return nil
		}
	}
	if err != nil {
		return fmt.Errorf("the request cannot be counted: %w", err)
	}
	return errResets
}

// networkOf returns the network that a client can choose its address in.
func networkOf(c auth.Channel) string {
	at, err := netip.ParseAddrPort(c.Remote())
	if err != nil {
		return c.Remote()
	}
	a := at.Addr().Unmap().WithZone("")
	if a.Is4() {
		return a.String()
	}
	return netip.PrefixFrom(a, 64).Masked().String()
}

// meant returns the identity that a text means: a DN, a mail address, or a name that the identity rules
// know.
func meant(ctx context.Context, req *request.Request, asked string) (*settings.Identity, error) {
	who, err := identify.EntryNamed(ctx, req, asked)
	if errors.Is(err, identify.ErrNobody) && strings.Contains(asked, "@") {
		who, err = identify.Reach(ctx, req, auth.Target{Search: true, Scope: op.WholeSubtree, Filter: filter.EqualTo("mail", asked)})
	}
	if errors.Is(err, identify.ErrNobody) {
		who, err = identify.AuthzID(ctx, req, "u:"+asked)
	}
	if errors.Is(err, identify.ErrNobody) || err == nil && !who.HasEntry() {
		err = unfit("no account has this name, or several have it")
	}
	return who, err
}

// An unfit account may not be reset by mail, for a reason that is for the log.
type unfit string

func (u unfit) Error() string { return string(u) }

// mayReset returns the entry of an account whose owner may reset the password by mail. For any other
// account the error is an unfit. It binds the session as the owner, and makes req a request of the owner.
func (s *Session) mayReset(ctx context.Context, req *request.Request, who *settings.Identity) (*entry.Entry, error) {
	name, err := who.Name.DN()
	if err != nil {
		return nil, err
	}
	e, err := req.Snapshot.Entry(ctx, who.ID, false)
	if err != nil || e == nil {
		return nil, cmp.Or(err, error(unfit("the entry is gone")))
	}
	a, err := accountcheck.Open(ctx, req, who, who.DN())
	if err != nil {
		return nil, err
	}
	now := time.Now()
	switch {
	case s.d.server.IsAdmin(name):
		return nil, unfit("the administrator's password is in the server's configuration")
	case isOf(req, e, "simpleSecurityObject", "applicationProcess") && !isOf(req, e, "person"):
		return nil, unfit("it is the account of a service")
	case !hasUsable(req, a.Secrets):
		return nil, unfit("the account has no password, or one that is locked or verified elsewhere")
	case a.Policy.AfterPassword(&a.State, now).Refused == account.Unusable:
		return nil, unfit("the account is disabled, or its time has not come or is over")
	}
	if err := a.Policy.MayChange(&a.State, &account.Change{OldGiven: true}, now); err != nil {
		return nil, unfit(err.Error())
	}
	who.Bound = resetBound
	if may, err := bind.MayBind(ctx, req, who); err != nil || !may {
		return nil, cmp.Or(err, error(unfit("the access rules do not let the account bind")))
	}
	s.s.Who.Store(who)
	req.Who = who
	var refused *op.Result
	if err = write.MaySetOwn(ctx, req); errors.As(err, &refused) {
		err = unfit("the access rules do not let the owner set the password")
	}
	return e, err
}

// hasUsable reports whether secrets contain a password that somebody could have forgotten. Some values, such as
// !{SSHA}..., lock an account.
func hasUsable(req *request.Request, secrets []entry.Attribute) bool {
	return slices.ContainsFunc(secrets, func(a entry.Attribute) bool {
		return a.Type == req.Known.UserPassword && slices.ContainsFunc(a.Values, func(v []byte) bool {
			_, usable := auth.Usable(v)
			return usable
		})
	})
}

// isOf reports whether an entry has one of some object classes by name.
func isOf(req *request.Request, e *entry.Entry, classes ...string) bool {
	return slices.ContainsFunc(e.Values(req.Known.ObjectClass), func(v []byte) bool {
		return slices.ContainsFunc(classes, func(c string) bool { return strings.EqualFold(c, string(v)) })
	})
}

// mailOf returns the value of mail that somebody has typed, or the first one. The result is as the entry has it, never
// as it was typed.
func mailOf(req *request.Request, e *entry.Entry, asked string) string {
	for _, v := range e.Values(req.Schema.Attribute("mail")) {
		if strings.EqualFold(string(v), asked) {
			return string(v)
		}
	}
	return firstOf(req, e, "mail")
}

// firstOf returns the first value of the first of some attributes that the entry has.
func firstOf(req *request.Request, e *entry.Entry, names ...string) string {
	for _, name := range names {
		if vs := e.Values(req.Schema.Attribute(name)); len(vs) > 0 {
			return string(vs[0])
		}
	}
	return ""
}

// openReset begins a session that is bound as the owner of an account, for the time of one change of the password.
func (d *Directory) openReset(ctx context.Context, c auth.Channel, sealed string) (*Session, *resetTicket, error) {
	t := &resetTicket{}
	if d.unseal("reset", sealed, t) != nil || time.Now().Unix() >= t.Until {
		return nil, nil, ErrTicket
	}
	s := d.NewSession(c)
	err := s.takeReset(ctx, t)
	if err != nil {
		s.Close()
		return nil, nil, err
	}
	return s, t, nil
}

func (s *Session) takeReset(ctx context.Context, t *resetTicket) error {
	req := s.reading()
	defer req.Snapshot.Close()
	who, err := entryOf(ctx, req, t.Entry, "")
	if err != nil {
		return err
	}
	if err := t.check(ctx, req, who); err != nil {
		return err
	}
	var why unfit
	if _, err = s.mayReset(ctx, req, who); errors.As(err, &why) {
		s.d.server.Log.Warn("a link of a reset by mail is refused", "dn", who.Name, "from", s.s.Channel.Remote(), "error", err)
		return ErrTicket
	}
	return err
}

// check returns ErrTicket if the account has another password in the state that the request reads.
func (t *resetTicket) check(ctx context.Context, req *request.Request, who *settings.Identity) error {
	password, err := digest(ctx, req, who)
	if err == nil && !hmac.Equal(password, t.Password) {
		err = ErrTicket
	}
	return err
}

// ResetOwner returns the name of the entry whose password a ticket of a [Reset] sets. It fails like ResetPassword.
func (d *Directory) ResetOwner(ctx context.Context, c auth.Channel, ticket string) (string, error) {
	s, _, err := d.openReset(ctx, c, ticket)
	if err != nil {
		return "", err
	}
	defer s.Close()
	return s.Name(), nil
}

// ResetPassword sets a password by the ticket of a [Reset], as its owner with the old password would. If dry is set, it
// only tells whether the password could be set. The error is ErrTicket or a *op.Result.
func (d *Directory) ResetPassword(ctx context.Context, c auth.Channel, ticket string, new []byte, dry bool) error {
	s, t, err := d.openReset(ctx, c, ticket)
	if err != nil {
		return err
	}
	defer s.Close()
	req := d.pool.Get().(*request.Request)
	defer d.pool.Put(req)
	defer req.End()
	req.Begin(&s.s, 0)
	m := &op.Message{Request: &op.Extended{OID: control.OIDPasswordModify}}
	ctx = req.Traced(ctx, m)
	req.Controls.NoOp, req.Controls.Sessions = dry, []control.SessionTracking{{Identifier: resetSession}}
	err = write.ResetPassword(ctx, req, new, func() error { return t.check(ctx, req, req.Who) })
	over := errors.Is(err, ErrTicket)
	if over {
		err = op.Errorf(op.InvalidCredentials, "%v", err)
	}
	if err != nil {
		req.Response.Result = req.Server.ToResult(ctx, err)
	}
	req.Observed(m)
	switch result := req.Response.Result; {
	case over:
		return ErrTicket
	case result.Code == op.Success, dry && result.Code == op.NoOperation:
		return nil
	default:
		return &result
	}
}
