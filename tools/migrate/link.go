package migrate

import (
	"context"
	"errors"
	"time"

	"github.com/go-ldap/ldap/v3"

	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/pause"
)

// mostWait is the longest time between two attempts to reach a server.
const mostWait = time.Minute

// A link contains the connections to the server, which are replaced when they are lost.
type link struct {
	src   *Source
	ask   *Source // for questions during a synchronization
	every time.Duration
	note  func(string)
}

// newLink returns a link whose first connection is src.
func newLink(src *Source, o *Options) (link, error) {
	ask, err := src.Again()
	return link{src, ask, o.Every, o.Note}, err
}

// close closes the connections.
func (l *link) close() {
	l.src.Close()
	l.ask.Close()
}

// refuses makes l treat the server as one without content synchronization. It returns
// false if l does so already.
func (l *link) refuses(err error) bool {
	if !l.src.synced {
		return false
	}
	l.src.synced = false
	l.note(err.Error() + ": everything is read again each time instead")
	return true
}

// rest waits until it is time for the next refresh.
func (l *link) rest(ctx context.Context) error {
	if l.src.synced {
		return pause.For(ctx, time.Second)
	}
	return pause.For(ctx, l.every)
}

// reconnect connects again. It tries until it succeeds or ctx ends.
func (l *link) reconnect(ctx context.Context, wait time.Duration) error {
	for {
		if err := pause.For(ctx, wait); err != nil {
			return err
		}
		src, err := l.src.Again()
		if err == nil {
			var ask *Source
			if ask, err = l.src.Again(); err == nil {
				l.close()
				l.src, l.ask = src, ask
				return nil
			}
			src.Close()
		}
		l.note(err.Error())
		wait = min(2*max(wait, l.every/8), mostWait)
	}
}

// complete reads an entry again if the server has sent it without its ids. In a refresh,
// 389 sends only user attributes.
func (l *link) complete(ctx context.Context, ev *event) (err error) {
	if ev.entry == nil || ev.id == entry.Root || l.src.product.id == "" || len(l.src.ids(ev.entry)) > 0 {
		return nil
	}
	ev.entry, err = l.ask.find(ctx, ev.id.String())
	return err
}

// isLost reports whether an error comes from the other server or from the connection to
// it.
func isLost(err error) bool {
	var f *failure
	return errors.As(err, &f)
}

// isCut reports whether an error comes from the connection.
func isCut(err error) bool {
	return errors.Is(err, errCut) || isLost(err) && ldap.IsErrorWithCode(err, ldap.ErrorNetwork)
}
