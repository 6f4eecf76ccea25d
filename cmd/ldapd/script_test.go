package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	ber "github.com/go-asn1-ber/asn1-ber"
	"github.com/go-ldap/ldap/v3"
	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/text/encoding/unicode"

	"github.com/seed-4dac0d86/ldapd/ldap/control"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"ldapd": func() { os.Exit(run()) }})
}

func TestScripts(t *testing.T) { runScripts(t, "testdata/script") }

// TestCases runs the cases of files that other servers and tools write: "make cases".
func TestCases(t *testing.T) { runScripts(t, "testdata/cases") }

func runScripts(t *testing.T, dir string) {
	testscript.Run(t, testscript.Params{
		Dir: dir,
		Setup: func(e *testscript.Env) error {
			e.Setenv("LONG", strings.Repeat("long", 30)) // longer than the path of a Unix socket may be
			e.Setenv("GOGC", os.Getenv("GOGC"))
			e.Setenv("LDAPD_CONFIG", "")     // not what the machine has
			e.Setenv("LDAPD_ACCESS", "open") // most scripts read as the anonymous identity
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"ldap": ldapCommand, "waitfor": waitForCommand, "waitbind": waitBindCommand, "waitfind": waitFindCommand, "waitadd": waitAddCommand, "hangup": hangupCommand, "status": statusCommand, "freeport": freePortCommand, "damage": damageCommand, "utf16": utf16Command},
	})
}

// statusCommand runs a command and checks its exit status.
func statusCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: status N command...")
	}
	err := ts.Exec(args[1], args[2:]...)
	status := 0
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		status = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if strconv.Itoa(status) != args[0] {
		ts.Fatalf("exit status %d", status)
	}
}

// damageCommand flips a bit in the last file below a folder.
func damageCommand(ts *testscript.TestScript, neg bool, args []string) {
	last := ""
	ts.Check(filepath.WalkDir(ts.MkAbs(args[0]), func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			last = path
		}
		return err
	}))
	b, err := os.ReadFile(last)
	ts.Check(err)
	b[len(b)/2] ^= 1
	ts.Check(os.WriteFile(last, b, 0o600))
}

// utf16Command copies a file in the encoding and with the line ends of Windows.
func utf16Command(ts *testscript.TestScript, neg bool, args []string) {
	text := strings.ReplaceAll(ts.ReadFile(args[0]), "\n", "\r\n")
	text, err := unicode.UTF16(unicode.LittleEndian, unicode.UseBOM).NewEncoder().String(text)
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(text), 0o600))
}

// freePortCommand sets a variable to the number of a port on which nothing listens.
func freePortCommand(ts *testscript.TestScript, neg bool, args []string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Check(l.Close())
	_, port, _ := net.SplitHostPort(l.Addr().String())
	ts.Setenv(args[0], port)
}

// waitForCommand waits until a server answers on a Unix socket: it listens before it opens its store.
func waitForCommand(ts *testscript.TestScript, neg bool, args []string) {
	for range 500 {
		_, err := ldapDo("ldapi://"+ts.MkAbs(args[0]), "", "", "whoami", nil)
		var e *ldap.Error
		if err == nil || errors.As(err, &e) && e.ResultCode < ldap.ErrorNetwork {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	ts.Fatalf("nothing answers on %s", args[0])
}

// waitBindCommand waits until a bind succeeds: waitbind SOCKET DN PASSWORD.
func waitBindCommand(ts *testscript.TestScript, neg bool, args []string) {
	for range 500 {
		if _, err := ldapDo("ldapi://"+ts.MkAbs(args[0]), args[1], args[2], "whoami", nil); err == nil {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	ts.Fatalf("%s cannot bind with this password", args[1])
}

// waitFindCommand waits until a search finds something: waitfind SOCKET DN PASSWORD BASE
// FILTER.
func waitFindCommand(ts *testscript.TestScript, neg bool, args []string) {
	var err error
	for range 1000 {
		var out string
		if out, err = ldapDo("ldapi://"+ts.MkAbs(args[0]), args[1], args[2], "search", args[3:]); err == nil && out != "" {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	ts.Fatalf("%s finds nothing: %v", args[4], err)
}

// waitAddCommand adds an entry as soon as the server lets it be added.
func waitAddCommand(ts *testscript.TestScript, neg bool, args []string) {
	var err error
	for range 1000 {
		if _, err = ldapDo("ldapi://"+ts.MkAbs(args[0]), args[1], args[2], "add", args[3:]); err == nil {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	ts.Check(err)
}

// hangupCommand sends SIGHUP to all background commands, which testscript's kill cannot
// do.
func hangupCommand(ts *testscript.TestScript, neg bool, args []string) {
	for _, c := range ts.BackgroundCmds() {
		ts.Check(c.Process.Signal(syscall.SIGHUP))
	}
}

// ldapCommand runs an LDAP operation: ldap SOCKET DN PASSWORD add|search|... ARGS. After
// "!", the operation must fail.
func ldapCommand(ts *testscript.TestScript, neg bool, args []string) {
	out, err := ldapDo("ldapi://"+ts.MkAbs(args[0]), args[1], args[2], args[3], args[4:])
	fmt.Fprint(ts.Stdout(), out)
	switch {
	case neg && err == nil:
		ts.Fatalf("unexpected success")
	case neg:
		fmt.Fprintln(ts.Stderr(), err)
	default:
		ts.Check(err)
	}
}

func ldapDo(url, user, password, what string, args []string) (string, error) {
	c, err := ldap.DialURL(url)
	if err != nil {
		return "", err
	}
	defer c.Close()
	if user != "" {
		if err := c.Bind(user, password); err != nil {
			return "", err
		}
	}
	switch what {
	case "whoami":
		r, err := c.WhoAmI(nil)
		if err != nil {
			return "", err
		}
		return r.AuthzID + "\n", nil
	case "add":
		r := ldap.NewAddRequest(args[0], nil)
		for _, a := range args[1:] {
			name, value, _ := strings.Cut(a, "=")
			r.Attribute(name, []string{value})
		}
		return "", c.Add(r)
	case "modify": // modify DN add|delete|replace ATTRIBUTE=VALUE
		r := ldap.NewModifyRequest(args[0], nil)
		name, value, _ := strings.Cut(args[2], "=")
		change := map[string]func(string, []string){"add": r.Add, "delete": r.Delete, "replace": r.Replace}[args[1]]
		change(name, []string{value})
		return "", c.Modify(r)
	case "job": // job NAME ARGUMENTS; the job is started
		value := control.StartJob{Name: args[0], Arguments: args[1:]}.Encode()
		_, err := c.Extended(ldap.NewExtendedRequest(control.OIDStartJob, ber.NewString(ber.ClassContext, ber.TypePrimitive, 1, string(value), "")))
		return "", err
	case "compare": // compare DN ATTRIBUTE=VALUE
		name, value, _ := strings.Cut(args[1], "=")
		is, err := c.Compare(args[0], name, value)
		return fmt.Sprintln(is), err
	case "search":
		r, err := c.Search(ldap.NewSearchRequest(args[0], ldap.ScopeWholeSubtree, ldap.NeverDerefAliases, 0, 0, false, args[1], args[2:], nil))
		if err != nil {
			return "", err
		}
		var b strings.Builder
		for _, e := range r.Entries {
			fmt.Fprintln(&b, e.DN)
		}
		return b.String(), nil
	}
	return "", fmt.Errorf("ldap: unknown command %s", what)
}
