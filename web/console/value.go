package console

import (
	"bytes"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// The syntaxes (RFC 4517) whose values have a form of their own on pages.
const (
	syntaxBoolean   = "1.3.6.1.4.1.1466.115.121.1.7"
	syntaxInteger   = "1.3.6.1.4.1.1466.115.121.1.27"
	syntaxTime      = "1.3.6.1.4.1.1466.115.121.1.24"
	syntaxDN        = "1.3.6.1.4.1.1466.115.121.1.12"
	syntaxPostal    = "1.3.6.1.4.1.1466.115.121.1.41"
	syntaxJPEG      = "1.3.6.1.4.1.1466.115.121.1.28"
	syntaxFax       = "1.3.6.1.4.1.1466.115.121.1.23"
	syntaxOctets    = "1.3.6.1.4.1.1466.115.121.1.40"
	syntaxCert      = "1.3.6.1.4.1.1466.115.121.1.8"
	syntaxCRL       = "1.3.6.1.4.1.1466.115.121.1.9"
	syntaxCertPair  = "1.3.6.1.4.1.1466.115.121.1.10"
	syntaxOID       = "1.3.6.1.4.1.1466.115.121.1.38"
	syntaxDirectory = "1.3.6.1.4.1.1466.115.121.1.15"
)

// longest is how many octets of a text a page shows.
const longest = 1000

// A Value is an attribute value as a page shows it.
type Value struct {
	Kind  string // text, dn, image, file, certificate, time, secret, link, class
	Text  string // what is shown
	Href  string // where it leads
	Note  string
	Over  bool // it has ended
	Lines bool // it has line breaks
	Facts []fact
}

// A fact is a name with a text.
type fact struct{ Name, Text string }

// value returns how a value of an entry is shown. The number n is the place of the value in the attribute.
func (v *door) value(e *Entry, a *entry.Attribute, n int, b []byte) *Value {
	x := &Value{Kind: "text", Text: string(b)}
	at := v.Link("/entry/"+url.PathEscape(e.ID())+"/value/"+url.PathEscape(a.Description())+"/"+strconv.Itoa(n), "size", strconv.Itoa(len(b)))
	syntax := a.Type.Syntax.OID
	switch {
	case a.Type.Secret():
		return &Value{Kind: "secret", Text: secretText(b)}
	case a.Type.NamesEntries() && syntax == syntaxDN && len(b) > 0:
		x.Kind, x.Href, x.Text, x.Note = "dn", v.Named(x.Text), labelOf(x.Text), x.Text
	case syntax == syntaxTime:
		if t, err := schema.Time(b); err == nil {
			x.Kind, x.Text, x.Note = "time", t.UTC().Format(clock+" MST"), ago(t)
		}
	case syntax == syntaxBoolean:
		x.Text = map[string]string{"TRUE": "yes", "FALSE": "no"}[strings.ToUpper(x.Text)]
	case syntax == syntaxPostal:
		x.Text, x.Lines = postalText(x.Text), true
	case syntax == syntaxCert:
		v.certificate(x, b)
		x.Href = at
	case syntax == syntaxJPEG || syntax == syntaxFax || syntax == syntaxOctets || syntax == syntaxCRL || syntax == syntaxCertPair || !isText(b):
		x.Href = at
		if imageType(b) != "" {
			x.Kind, x.Text = "image", a.Type.Name()+" of "+e.Label()
			return x
		}
		if isText(b) && len(b) < longest && syntax == syntaxOctets {
			return x
		}
		x.Kind, x.Text = "file", fmt.Sprintf("%d bytes", len(b))
		x.Note = hex.EncodeToString(b[:min(len(b), 24)])
	case isCalled(a.Type, "objectClass"):
		x.Kind, x.Href = "class", link("/schema", "name", x.Text)
	case strings.HasPrefix(x.Text, "https://") || strings.HasPrefix(x.Text, "http://"):
		x.Kind, x.Href = "link", x.Text
		if isCalled(a.Type, "labeledURI") {
			x.Href, _, _ = strings.Cut(x.Text, " ")
		}
	}
	if x.Kind == "text" && len(x.Text) > longest {
		x.Note, x.Href = fmt.Sprintf("all %d bytes", len(b)), at
		x.Text = strings.ToValidUTF8(x.Text[:longest], "") + "…"
	}
	x.Lines = x.Lines || strings.Contains(x.Text, "\n")
	return x
}

// secretText returns the scheme of a stored secret, and nothing else of it.
func secretText(b []byte) string {
	if scheme, _, ok := bytes.Cut(b, []byte("}")); ok && len(scheme) > 1 && len(scheme) < 20 && scheme[0] == '{' {
		return "set, stored as " + string(scheme[1:])
	}
	return "set"
}

// isText reports whether a value can be shown as text.
func isText(b []byte) bool {
	if !utf8.Valid(b) {
		return false
	}
	return !bytes.ContainsFunc(b, func(r rune) bool { return r < ' ' && r != '\n' && r != '\r' && r != '\t' })
}

// imageType returns the media type of a picture by its first octets, or "". SVG is no picture here,
// because it may contain script.
func imageType(b []byte) string {
	switch kind := http.DetectContentType(b); kind {
	case "image/jpeg", "image/png", "image/gif", "image/webp":
		return kind
	}
	return ""
}

// postalText returns the lines of a Postal Address (RFC 4517, 3.3.28).
func postalText(s string) string {
	lines := schema.PostalLines(s)
	for i, l := range lines {
		lines[i] = strings.TrimSpace(l)
	}
	return strings.Join(lines, "\n")
}

// certificate describes a certificate.
func (v *door) certificate(x *Value, b []byte) {
	x.Kind = "certificate"
	c, err := x509.ParseCertificate(b)
	if err != nil {
		x.Kind, x.Text, x.Note = "file", fmt.Sprintf("%d bytes", len(b)), "not a certificate that can be read: "+err.Error()
		return
	}
	x.Text, x.Over = c.Subject.String(), time.Now().After(c.NotAfter)
	names := strings.Join(append(c.DNSNames, c.EmailAddresses...), ", ")
	x.Facts = []fact{{"issuer", c.Issuer.String()}, {"serial", c.SerialNumber.String()},
		{"valid", c.NotBefore.Format("2006-01-02") + " to " + c.NotAfter.Format("2006-01-02")}}
	if names != "" {
		x.Facts = append(x.Facts, fact{"names", names})
	}
}
