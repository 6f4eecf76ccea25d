package hbase

import (
	"fmt"
	"net"
	"net/url"
	"regexp"
	"strings"
)

// Scheme is the beginning of the URL of a store on HBase.
const Scheme = "hbase://"

// defaultPort is the default port of ZooKeeper.
const defaultPort = "2181"

// A Target identifies a store by a cluster and a prefix of table names.
type Target struct {
	Quorum []string // ZooKeeper servers in the form host:port
	Prefix string   // prefix of table names
	Root   string   // HBase's folder in ZooKeeper
	User   string   // user name sent to HBase
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
		return Target{}, fmt.Errorf("store %q: %s; it must look like %sZK1,ZK2:2181/PREFIX", s, fmt.Sprintf(format, args...), Scheme)
	}
	rest, ok := strings.CutPrefix(s, Scheme)
	if !ok {
		return bad("not an HBase URL")
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
	if t.Quorum, err = quorum(hosts); err != nil {
		return bad("%v", err)
	}
	if err := t.options(query); err != nil {
		return bad("%v", err)
	}
	return t, nil
}

// quorum parses a list of servers. A port also applies to the servers without a port that
// come before it in the list.
func quorum(hosts string) ([]string, error) {
	list := strings.Split(hosts, ",")
	port := defaultPort
	for i := len(list) - 1; i >= 0; i-- {
		host := list[i]
		if h, p, err := net.SplitHostPort(host); err == nil {
			host, port = h, p
		}
		host = strings.Trim(host, "[]")
		if host == "" || port == "" {
			return nil, fmt.Errorf("empty host or port among the ZooKeeper servers")
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
	s := Scheme + strings.Join(t.Quorum, ",") + "/" + t.Prefix
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

// zk returns the quorum in the form that ZooKeeper clients expect.
func (t Target) zk() string { return strings.Join(t.Quorum, ",") }

// table returns the HBase name of a table.
func (t Target) table(name string) string { return t.Prefix + "_" + name }
