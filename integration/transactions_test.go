package integration

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	asn1 "github.com/go-asn1-ber/asn1-ber"
	"github.com/go-ldap/ldap/v3"

	"github.com/seed-4dac0d86/ldapd/ldap/control"
)

// startTransaction begins a transaction (RFC 5805) and returns its identifier.
func startTransaction(c *ldap.Conn) (string, error) {
	r, err := c.Extended(ldap.NewExtendedRequest(control.OIDStartTransaction, nil))
	if err != nil {
		return "", err
	}
	return r.Value.Data.String(), nil
}

// endTransaction commits or aborts a transaction.
func endTransaction(c *ldap.Conn, id string, commit bool) error {
	v := asn1.Encode(asn1.ClassUniversal, asn1.TypeConstructed, asn1.TagSequence, nil, "")
	if !commit {
		v.AppendChild(asn1.NewBoolean(asn1.ClassUniversal, asn1.TypePrimitive, asn1.TagBoolean, false, ""))
	}
	v.AppendChild(asn1.NewString(asn1.ClassUniversal, asn1.TypePrimitive, asn1.TagOctetString, id, ""))
	value := asn1.NewString(asn1.ClassContext, asn1.TypePrimitive, 1, string(v.Bytes()), "")
	_, err := c.Extended(ldap.NewExtendedRequest(control.OIDEndTransaction, value))
	return err
}

func inTransaction(id string) ldap.Control {
	return ldap.NewControlString(control.OIDTransaction, true, id)
}

// TestGoLDAPTransaction commits and aborts transactions with go-ldap (RFC 5805).
func TestGoLDAPTransaction(t *testing.T) {
	p := watchedServer(t)
	c, reader := p.admin(), p.admin()
	const twoDN = "cn=2," + watchedDN
	id, err := startTransaction(c)
	if err != nil {
		t.Fatal(err)
	}
	addTo(t, c, twoDN, "device")
	wantCode(t, "modify", c.Modify(describing(oneDN, "both", inTransaction(id))), ldap.LDAPResultSuccess)
	wantCode(t, "modify another", c.Modify(describing(twoDN, "both", inTransaction(id))), ldap.LDAPResultSuccess)
	wantCode(t, "before the end", compare(reader, oneDN, "description", "both"), ldap.LDAPResultNoSuchAttribute)
	wantCode(t, "end", endTransaction(c, id, true), ldap.LDAPResultSuccess)
	for _, dn := range []string{oneDN, twoDN} {
		wantCode(t, "after the end", compare(reader, dn, "description", "both"), ldap.LDAPResultSuccess)
	}
	wantCode(t, "end once more", endTransaction(c, id, true), ldap.LDAPResultOperationsError)

	if id, err = startTransaction(c); err != nil {
		t.Fatal(err)
	}
	wantCode(t, "modify", c.Modify(describing(oneDN, "aborted", inTransaction(id))), ldap.LDAPResultSuccess)
	wantCode(t, "an entry that does not exist", c.Modify(describing("cn=3,"+watchedDN, "aborted", inTransaction(id))), ldap.LDAPResultSuccess)
	wantCode(t, "end", endTransaction(c, id, true), ldap.LDAPResultNoSuchObject)
	wantCode(t, "after a failed end", compare(reader, oneDN, "description", "both"), ldap.LDAPResultSuccess)

	if id, err = startTransaction(c); err != nil {
		t.Fatal(err)
	}
	wantCode(t, "modify", c.Modify(describing(oneDN, "aborted", inTransaction(id))), ldap.LDAPResultSuccess)
	wantCode(t, "of another connection", endTransaction(reader, id, true), ldap.LDAPResultOperationsError)
	wantCode(t, "abort", endTransaction(c, id, false), ldap.LDAPResultSuccess)
	wantCode(t, "after an abort", compare(reader, oneDN, "description", "both"), ldap.LDAPResultSuccess)
	p.stop()
}

// TestTransactionsEndWithConnection ends transactions by a Bind, by StartTLS, by an Unbind
// and by a lost connection. A transaction that ended so must have changed nothing (RFC
// 5805, 3.5).
func TestTransactionsEndWithConnection(t *testing.T) {
	f := newTLS(t)
	store := filepath.Join(t.TempDir(), "store")
	importInto(t, store, example)
	p := serve(t, store, f.flags()...)
	for name, end := range map[string]func(c *ldap.Conn) error{
		"bind":     func(c *ldap.Conn) error { return c.Bind(adminDN, adminPassword) },
		"StartTLS": func(c *ldap.Conn) error { return c.StartTLS(f.trusting()) },
		"unbind":   func(c *ldap.Conn) error { return c.Unbind() },
		"lost":     func(c *ldap.Conn) error { return c.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			c := p.admin()
			id, err := startTransaction(c)
			if err != nil {
				t.Fatal(err)
			}
			wantCode(t, "modify", c.Modify(describing(asantos, "in a transaction", inTransaction(id))), ldap.LDAPResultSuccess)
			if err := end(c); err != nil {
				t.Fatal(err)
			}
			if name == "bind" || name == "StartTLS" { // the connection goes on, without the transaction
				wantCode(t, "update", c.Modify(describing(asantos, "late", inTransaction(id))), ldap.LDAPResultOperationsError)
				wantCode(t, "end", endTransaction(c, id, true), ldap.LDAPResultOperationsError)
			}
			wantCode(t, "nothing was changed", compare(p.admin(), asantos, "description", "in a transaction"), ldap.LDAPResultNoSuchAttribute)
		})
	}
	p.stop()
}

// These are the numbers of accounts of the bank, and the initial amount in each of an
// account's two attributes.
const (
	bankDN         = "ou=bank," + suffix
	bankAccounts   = 6
	stagedAccounts = 4 // further accounts, which only branches change
	bankEach       = 1000
)

func accountDN(n int) string { return fmt.Sprintf("uid=%d,%s", n, bankDN) }

// A bank is accounts between which clients move money, with four updates in each
// transaction. The sum of all accounts must be the same whenever a client reads it.
type bank struct {
	*fleet
	tally

	mu    sync.Mutex
	times []time.Time // a time after each committed transaction and each merge
}

// bankEntries writes an LDIF file of the accounts.
func bankEntries(t *testing.T) string {
	var s strings.Builder
	fmt.Fprintf(&s, "dn: %s\nobjectClass: organizationalUnit\n\n", bankDN)
	for n := range bankAccounts + stagedAccounts {
		fmt.Fprintf(&s, "dn: %s\nobjectClass: account\nobjectClass: posixAccount\ncn: x\nhomeDirectory: /\nuidNumber: %d\ngidNumber: %d\n\n", accountDN(n), bankEach, bankEach)
	}
	return writeIn(t, t.TempDir(), "bank.ldif", s.String())
}

// transfer makes one transaction.
func (b *bank) transfer(c *ldap.Conn, r *rand.Rand) bool {
	err := b.move(c, r)
	if err == nil {
		b.mu.Lock()
		b.times = append(b.times, time.Now())
		b.mu.Unlock()
	}
	return b.count(&b.tally, err)
}

// move runs a transaction that moves money twice.
func (b *bank) move(c *ldap.Conn, r *rand.Rand) error {
	id, err := startTransaction(c)
	if err != nil {
		return err
	}
	for _, attribute := range []string{"uidNumber", "gidNumber"} {
		amount := r.IntN(20)
		for _, by := range []int{amount, -amount} {
			m := ldap.NewModifyRequest(accountDN(r.IntN(bankAccounts)), []ldap.Control{inTransaction(id)})
			m.Increment(attribute, strconv.Itoa(by))
			if err := c.Modify(m); err != nil {
				return err
			}
		}
	}
	return endTransaction(c, id, true)
}

// audit reads the sum at one server after the other until the fleet is stopped.
func (b *bank) audit() {
	for n := 0; !b.stopped.Load(); n++ {
		c, err := dial(b.seats[n%servers].process().url(), adminDN, adminPassword)
		if err == nil {
			err = b.sum(c)
			c.Close()
		}
		if errors.Is(err, errSum) {
			b.t.Errorf("server %d: %v", n%servers, err)
			return
		}
	}
}

var errSum = errors.New("the sum differs")

// sum returns errSum if the sum of all accounts differs from the sum at the beginning.
func (b *bank) sum(c *ldap.Conn, controls ...ldap.Control) error {
	res, err := c.Search(ldap.NewSearchRequest(bankDN, ldap.ScopeSingleLevel, 0, 0, 0, false, "(objectClass=account)", []string{"uidNumber", "gidNumber"}, controls))
	if err != nil {
		return err
	}
	sum := 0
	for _, e := range res.Entries {
		for _, attribute := range []string{"uidNumber", "gidNumber"} {
			n, _ := strconv.Atoi(e.GetAttributeValue(attribute))
			sum += n
		}
	}
	if sum != 2*(bankAccounts+stagedAccounts)*bankEach {
		return fmt.Errorf("%w: %d", errSum, sum)
	}
	return nil
}

// The method "past" reads past states at each server, one for each time in b.times, and checks
// the sum in each state.
func (b *bank) past() {
	for i := range b.seats {
		c := b.seats[i].process().admin()
		for _, at := range b.times {
			eventually(b.t, "the sum of the past", func() error {
				err := b.sum(c, ldap.NewControlString(control.OIDAt, true, at.UTC().Format("20060102150405.000000Z")))
				if errors.Is(err, errSum) {
					b.t.Fatalf("server %d: at %v: %v", i, at, err)
				}
				return err
			})
		}
		c.Close()
	}
}
