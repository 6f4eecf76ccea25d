package hbase

import (
	"fmt"
	"net"
	"net/url"
	"regexp"
	"strings"
)

// A store's URL begins with one of these.
const (
	Scheme    = "hbase://"     // the cluster is found by ZooKeeper
	RPCScheme = "hbase+rpc://" // the cluster is found by its masters or region servers, and ZooKeeper is not asked
)

// Form shows what a store's URL looks like.
const Form = Scheme + "ZK1,ZK2:2181/PREFIX"

// The default ports of ZooKeeper and of region servers.
const (
	zkPort     = "2181"
	regionPort = "16020"
)

// A Target identifies a store by a cluster and a prefix of table names.
type Target struct {
	RPC     bool     // Servers are masters or region servers, and not ZooKeeper
	Servers []string // where the cluster is found, in the form host:port
	Prefix  string   // prefix of table names
	Root    string   // HBase's folder in ZooKeeper
	User    string   // user name sent to HBase
}

// IsURL reports whether s is meant as the URL of a store on HBase, and not as a folder.
func IsURL(s string) bool {
	return strings.HasPrefix(s, "hbase:") || strings.HasPrefix(s, "hbase+rpc:")
}

// In the name of a table, an underscore ends the prefix. So a prefix must not contain an
// underscore: otherwise the tables of prefix a_b would be among the tables of prefix a.
var (
	prefixForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9.-]*$`)
	nameForm   = regexp.MustCompile(`^[A-Za-z0-9_.-]+$`)
)

// Parse parses a store's URL.
func Parse(s string) (Target, error) {
	t := Target{Root: "/hbase", User: "ldapd"}
	bad := func(format string, args ...any) (Target, error) {
		return Target{}, fmt.Errorf("store %q: %s; it must look like %s or %sHOST1,HOST2:16020/PREFIX", s, fmt.Sprintf(format, args...), Form, RPCScheme)
	}
	port := zkPort
	rest, ok := strings.CutPrefix(s, Scheme)
	if !ok {
		port = regionPort
		if rest, t.RPC = strings.CutPrefix(s, RPCScheme); !t.RPC {
			return bad("not an HBase URL")
		}
	}
	rest, query, _ := strings.Cut(rest, "?")
	hosts, prefix, ok := strings.Cut(rest, "/")
	if !ok || prefix == "" {
		return bad("no table prefix")
	}
	if !prefixForm.MatchString(prefix) {
		return bad("a table prefix has letters, digits, '-' and '.' only")
	}
	t.Prefix = prefix
	var err error
	if t.Servers, err = servers(hosts, port); err != nil {
		return bad("%v", err)
	}
	if err := t.options(query); err != nil {
		return bad("%v", err)
	}
	return t, nil
}

// servers parses a list of servers. A port also applies to the servers without a port that
// come before it in the list.
func servers(hosts, port string) ([]string, error) {
	list := strings.Split(hosts, ",")
	for i := len(list) - 1; i >= 0; i-- {
		host := list[i]
		if h, p, err := net.SplitHostPort(host); err == nil {
			host, port = h, p
		}
		host = strings.Trim(host, "[]")
		if host == "" || port == "" {
			return nil, fmt.Errorf("empty host or port among the servers")
		}
		list[i] = net.JoinHostPort(host, port)
	}
	return list, nil
}

func (t *Target) options(query string) error {
	values, err := url.ParseQuery(query)
	if err != nil {
		return fmt.Errorf("bad options: %v", err)
	}
	for k, v := range values {
		switch {
		case k == "zkroot" && t.RPC:
			return fmt.Errorf("zkroot is for ZooKeeper, which %s does not ask", RPCScheme)
		case k == "zkroot" && strings.HasPrefix(v[0], "/"):
			t.Root = v[0]
		case k == "zkroot":
			return fmt.Errorf("zkroot must begin with '/'")
		case k == "user" && v[0] != "":
			t.User = v[0]
		default:
			return fmt.Errorf("unknown option %q (zkroot and user are known)", k)
		}
	}
	return nil
}

// String returns the store's URL.
func (t Target) String() string {
	s := Scheme
	if t.RPC {
		s = RPCScheme
	}
	s += t.servers() + "/" + t.Prefix
	v := url.Values{}
	if t.Root != "/hbase" {
		v.Set("zkroot", t.Root)
	}
	if t.User != "ldapd" {
		v.Set("user", t.User)
	}
	if len(v) > 0 {
		s += "?" + v.Encode()
	}
	return s
}

func (t Target) servers() string { return strings.Join(t.Servers, ",") }

// table returns the HBase name of a table.
func (t Target) table(name string) string { return t.Prefix + "_" + name }
