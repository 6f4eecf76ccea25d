package console

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/seed-4dac0d86/ldapd/directory"
	"github.com/seed-4dac0d86/ldapd/dn/short"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/web"
)

const (
	resetLasts   = 30 * time.Minute // a link
	mailTime     = 30 * time.Second // for looking up a name and sending a mail
	mailsAtOnce  = 4
	mailsWaiting = 64  // requests beyond these are dropped
	maxAsked     = 512 // octets of a name
)

// resets are the requests for links that wait until somebody takes them. All that depends on the name is done
// after the answer, so that neither its words nor its time tell anything about the name.
type resets struct {
	mail  *Mail
	dir   *directory.Directory
	log   *slog.Logger
	queue chan forgotten
}

// A forgotten is a request for a link.
type forgotten struct {
	name string
	from web.Channel
}

// OfferReset adds the pages at /reset, where people who have forgotten their passwords get links by mail. The caller must
// call stop, which drops the requests that still wait, before the directory is closed. OfferReset is called before
// web.Server.Serve.
func (c *Console) OfferReset(m *Mail, log *slog.Logger) (stop func()) {
	c.resets = &resets{m, c.dir, log, make(chan forgotten, mailsWaiting)}
	for pattern, page := range resetRoutes() {
		c.web.Handle(pattern, c.page(page))
	}
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for range mailsAtOnce {
		all.Go(func() { c.resets.work(ctx) })
	}
	return func() {
		cancel()
		all.Wait()
	}
}

func resetRoutes() map[string]func(*visit) error {
	return map[string]func(*visit) error{
		"GET /reset":        showReset,
		"POST /reset":       askReset,
		"GET /reset/sent":   showSent,
		"GET /reset/link":   showLink,
		"POST /reset/link":  useLink,
		"POST /reset/check": checkByLink,
	}
}

// OffersReset reports whether people can have links to set their passwords.
func (c *Console) OffersReset() bool { return c.resets != nil }

const notSent = "no link to set a password was sent"

// work takes requests until ctx ends.
func (r *resets) work(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case f := <-r.queue:
			r.take(ctx, f)
		}
	}
}

// take sends the link that somebody has asked for, or writes down why not.
func (r *resets) take(ctx context.Context, f forgotten) {
	ctx, cancel := context.WithTimeout(ctx, mailTime)
	defer cancel()
	log := r.log.With("from", f.from.Remote(), "asked", short.Text(f.name))
	reset, err := r.dir.NewReset(ctx, f.from, f.name, r.mail.o.Now().Add(resetLasts))
	if err != nil {
		log.Info(notSent, "error", err)
		return
	}
	log = log.With("dn", reset.Name, "to", reset.Mail)
	if err := r.mail.deliver(ctx, reset, f.from.Remote()); err != nil {
		log.Warn(notSent, "error", err)
		return
	}
	log.Info("a link to set a password was sent")
}

// deliver sends the link of a reset.
func (m *Mail) deliver(ctx context.Context, reset *directory.Reset, from string) error {
	if err := mailbox(reset.Mail); err != nil {
		return err
	}
	address, _, err := net.SplitHostPort(from)
	if err != nil {
		return err
	}
	message, err := m.message(reset.Mail, letter{Link: m.o.URL + link("/reset/link", "t", reset.Ticket),
		Person: reset.Person, Name: reset.Name, Minutes: int(resetLasts.Minutes()), Address: address})
	if err != nil {
		return err
	}
	return m.send(ctx, reset.Mail, message)
}

// A resetPage is the data of the pages at /reset.
type resetPage struct {
	Name, Error   string
	Sent          bool   // a link may be on its way
	Ticket, Owner string // of a link
}

func showReset(v *visit) error { return v.reset(http.StatusOK, "Forgotten password", resetPage{}) }

func showSent(v *visit) error {
	return v.reset(http.StatusOK, "Look at your mail", resetPage{Sent: true})
}

func (v *visit) reset(status int, title string, p resetPage) error {
	v.answer(status)
	return v.render("reset", title, p)
}

// askReset takes a name. The answer is the same for all names.
func askReset(v *visit) error {
	p := resetPage{Name: strings.TrimSpace(v.r.PostForm.Get("name"))}
	if p.Name == "" || len(p.Name) > maxAsked {
		p.Error = "Type your user name or your mail address."
		return v.reset(http.StatusUnprocessableEntity, "Forgotten password", p)
	}
	f := forgotten{p.Name, v.web.Channel(v.r)}
	select {
	case v.resets.queue <- f:
	default:
		v.resets.log.Warn(notSent, "from", f.from.Remote(), "asked", short.Text(f.name), "error", "too many requests wait: is the relay slow?")
	}
	return v.redirect("/reset/sent")
}

// showLink shows the form to which a link leads. It changes nothing, because programs that look at mails follow links.
func showLink(v *visit) error {
	return v.byLink(http.StatusOK, v.r.URL.Query().Get("t"), "")
}

// byLink shows the form for a new password, and what was wrong with one.
func (v *visit) byLink(status int, ticket, wrong string) error {
	owner, err := v.dir.ResetOwner(v.r.Context(), v.web.Channel(v.r), ticket)
	if errors.Is(err, directory.ErrTicket) {
		return v.reset(http.StatusGone, "Forgotten password", resetPage{Error: "This link is over: a link works once, for half an hour, and until the password changes. Ask for another one."})
	}
	if err != nil {
		return err
	}
	return v.reset(status, "Set a new password", resetPage{Ticket: ticket, Owner: owner, Error: wrong})
}

// useLink sets a password.
func useLink(v *visit) error {
	f := v.r.PostForm
	switch {
	case f.Get("new") == "":
		return v.byLink(http.StatusUnprocessableEntity, f.Get("t"), "Type a new password, twice.")
	case f.Get("new") != f.Get("again"):
		return v.byLink(http.StatusUnprocessableEntity, f.Get("t"), "The two new passwords are not the same.")
	}
	err := v.dir.ResetPassword(v.r.Context(), v.web.Channel(v.r), f.Get("t"), []byte(f.Get("new")), false)
	var refused *op.Result
	switch {
	case errors.As(err, &refused):
		return v.byLink(statusOf(refused.Code), f.Get("t"), explain(refused))
	case errors.Is(err, directory.ErrTicket):
		return v.byLink(http.StatusGone, "", "")
	case err != nil:
		return err
	}
	v.web.LogOut(v.w, v.r) // another's log in would be taken for one with the new password
	return v.redirect("/login?done=password")
}

// checkByLink says what the password policy has against a password that somebody is typing.
func checkByLink(v *visit) error {
	words, f := "", v.r.PostForm
	if f.Get("new") != "" {
		err := v.dir.ResetPassword(v.r.Context(), v.web.Channel(v.r), f.Get("t"), []byte(f.Get("new")), true)
		var refused *op.Result
		switch {
		case errors.As(err, &refused):
			words = explain(refused)
		case err == nil:
			words = "This password can be used."
		case !errors.Is(err, directory.ErrTicket): // which the form will say
			return err
		}
	}
	return v.write("reset", "words", "", words)
}
