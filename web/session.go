package web

import (
	"errors"
	"net/http"
	"time"

	"github.com/seed-4dac0d86/ldapd/directory"
)

// cookieName returns the name of the cookie with the ticket. Browsers take a cookie with the prefix
// __Host- only over TLS, from the host itself, for all paths.
func cookieName(r *http.Request) string {
	if r.TLS == nil {
		return "ldapd"
	}
	return "__Host-ldapd"
}

// Session returns a session for a request, bound by the ticket in the request's cookie. Without a valid
// ticket the session is anonymous; the result over reports that there was a ticket, which is then
// removed. A ticket that has been used for a while is renewed. The caller closes the session.
func (s *Server) Session(w http.ResponseWriter, r *http.Request) (session *directory.Session, over bool, err error) {
	c, err := r.Cookie(cookieName(r))
	if err != nil || c.Value == "" {
		return s.directory.NewSession(s.Channel(r)), false, nil
	}
	session, err = s.directory.Resume(r.Context(), s.Channel(r), c.Value)
	switch {
	case errors.Is(err, directory.ErrTicket):
		s.LogOut(w, r)
		return s.directory.NewSession(s.Channel(r)), true, nil
	case err != nil:
		return nil, false, err
	}
	s.renew(w, r, session)
	return session, false, nil
}

// NewSession returns an anonymous session for a request, in which somebody can bind.
func (s *Server) NewSession(r *http.Request) *directory.Session {
	return s.directory.NewSession(s.Channel(r))
}

// renew makes the cookie last longer, but not beyond the longest time since the bind.
func (s *Server) renew(w http.ResponseWriter, r *http.Request, session *directory.Session) {
	since, until := session.Resumed()
	if time.Until(until) > s.options.Idle-min(time.Minute, s.options.Idle/4) {
		return
	}
	if err := s.keep(w, r, session, since); err != nil {
		s.options.Log.Warn("a ticket is not renewed", "error", err)
	}
}

// LogIn sends the client a ticket for a session that has just been bound.
func (s *Server) LogIn(w http.ResponseWriter, r *http.Request, session *directory.Session) error {
	return s.keep(w, r, session, time.Now())
}

func (s *Server) keep(w http.ResponseWriter, r *http.Request, session *directory.Session, bound time.Time) error {
	until := time.Now().Add(s.options.Idle)
	if last := bound.Add(s.options.Session); last.Before(until) {
		until = last
	}
	ticket, err := session.Ticket(r.Context(), until)
	if err != nil {
		return err
	}
	setCookie(w, r, ticket, 0)
	return nil
}

// LogOut removes the ticket.
func (s *Server) LogOut(w http.ResponseWriter, r *http.Request) {
	setCookie(w, r, "", -1)
}

func setCookie(w http.ResponseWriter, r *http.Request, value string, age int) {
	http.SetCookie(w, &http.Cookie{Name: cookieName(r), Value: value, Path: "/", MaxAge: age, Secure: r.TLS != nil, HttpOnly: true, SameSite: http.SameSiteStrictMode})
}
