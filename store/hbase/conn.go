package hbase

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tsuna/gohbase"
	"github.com/tsuna/gohbase/hrpc"
	"google.golang.org/protobuf/proto"

	"github.com/seed-4dac0d86/ldapd/store/hbase/internal/alltime"
	"github.com/seed-4dac0d86/ldapd/store/hbase/internal/krb"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// A conn provides a gohbase client, and replaces the client after an outage.
type conn struct {
	target  Target
	user    string // the user name sent to HBase
	timeout time.Duration
	log     *slog.Logger
	dialer  *alltime.Dialer

	tlsZooKeeper bool
	zkLogin      *krb.Login // nil without Kerberos to ZooKeeper

	client   atomic.Pointer[client]
	watching atomic.Bool     // a goroutine waits until the cluster answers
	warned   time.Time       // when a silence of the cluster was logged; used by the caller that set watching
	life     context.Context // ends when the conn is closed
	end      context.CancelFunc
	wg       sync.WaitGroup
}

// A client is one gohbase client and its connections.
type client struct {
	gohbase.Client
	raw      gohbase.RPCClient
	made     time.Time
	current  context.Context // ends when a fresh client has replaced this one
	replaced context.CancelFunc
	lines
}

// dial waits until the cluster answers, and returns a conn with a client.
func dial(ctx context.Context, t Target, o Options) (*conn, error) {
	c := &conn{target: t, user: t.User, timeout: o.Timeout, log: o.Log, dialer: &alltime.Dialer{TLS: o.TLS}, tlsZooKeeper: o.TLSZooKeeper}
	if err := c.login(&o); err != nil {
		return nil, fmt.Errorf("hbase: kerberos: %w", err)
	}
	c.life, c.end = context.WithCancel(context.Background())
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	if err := c.await(ctx); err != nil {
		c.end()
		return nil, err
	}
	cl, err := c.newClient()
	if err != nil {
		c.end()
		return nil, err
	}
	c.client.Store(cl)
	return c, nil
}

// login prepares Kerberos.
func (c *conn) login(o *Options) (err error) {
	if o.Kerberos == nil {
		return nil
	}
	if c.dialer.Kerberos, err = krb.New(*o.Kerberos); err != nil {
		return err
	}
	// HBase compares the user of a connection with the whole name of its ticket.
	c.user = c.dialer.Kerberos.Principal()
	if o.KerberosZooKeeper != "" {
		c.zkLogin, err = krb.New(o.Kerberos.ForZooKeeper(o.KerberosZooKeeper))
	}
	return err
}

// await probes the cluster until it answers or ctx ends.
func (c *conn) await(ctx context.Context) error {
	pause := 50 * time.Millisecond
	var reason error
	for {
		err := c.probe(ctx)
		if err == nil {
			return nil
		}
		if reason == nil || ctx.Err() == nil { // the end of ctx is no reason
			reason = err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("hbase: %w: %w", table.ErrUnavailable, reason)
		case <-time.After(pause):
			pause = min(2*pause, time.Second)
		}
	}
}

func (c *conn) options() []gohbase.Option {
	return []gohbase.Option{
		gohbase.ZooKeeperDialer(c.dialZooKeeper(func(error) {})),
		gohbase.ZookeeperRoot(c.target.Root),
		gohbase.ZookeeperTimeout(max(c.timeout, time.Second)),
		gohbase.EffectiveUser(c.user),
		gohbase.RegionLookupTimeout(c.timeout),
		gohbase.RegionReadTimeout(c.timeout),
		// A queue of size 1 makes gohbase send each call at once. By default, gohbase waits 20
		// ms for more calls to send in the same batch. This store needs no such wait, because
		// it passes many calls to gohbase as one batch.
		gohbase.RpcQueueSize(1),
		gohbase.Logger(slog.New(debugOnly{c.log.Handler()})),
	}
}

func (c *conn) newClient() (*client, error) {
	cl := &client{lines: lines{dialer: c.dialer}}
	cl.Client = gohbase.NewClient(strings.Join(c.numbers(), ","), append(c.options(), gohbase.RegionDialer(cl.lines.dial))...)
	raw, ok := cl.Client.(gohbase.RPCClient)
	if !ok {
		return nil, fmt.Errorf("hbase: this gohbase has no raw calls")
	}
	cl.raw, cl.made = raw, time.Now()
	cl.current, cl.replaced = context.WithCancel(context.Background())
	return cl, nil
}

func (cl *client) close() {
	cl.Client.Close()
	cl.lines.close()
}

// lines are the connections of a gohbase client. The list is needed to close all
// connections of a closed client: if a client is closed while it looks up a region, it
// continues the look-up and opens another connection.
type lines struct {
	dialer *alltime.Dialer

	mu     sync.Mutex
	closed bool
	open   map[net.Conn]struct{}
}

func (l *lines) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	c, err := l.dialer.Dial(ctx, network, addr, l.remove)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		time.AfterFunc(time.Second, func() { c.Close() })
	}
	if l.open == nil {
		l.open = map[net.Conn]struct{}{}
	}
	l.open[c] = struct{}{}
	return c, nil
}

// remove removes a connection that was closed.
func (l *lines) remove(c net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.open, c)
}

func (l *lines) close() {
	l.mu.Lock()
	l.closed = true
	open := l.open
	l.open = nil
	l.mu.Unlock()
	for c := range open {
		c.Close()
	}
}

func (c *conn) close() {
	c.end()
	c.wg.Wait()
	if cl := c.client.Swap(nil); cl != nil {
		cl.close()
		cl.replaced()
	}
}

// do runs one call with the deadline of the conn and classifies its error. If the caller's own deadline is earlier, and its
// cause is table.ErrUnavailable, the caller takes a store that has not answered until then for one that does not answer.
func (c *conn) do(ctx context.Context, op string, name []byte, f func(context.Context, *client) error) error {
	return c.run(ctx, op, name, func(ctx context.Context, cl *client) (*client, error) { return cl, f(ctx, cl) })
}

// repeat is do for a call that may be executed twice: a read, or a write with a timestamp of its own. If a fresh client replaces the
// call's client, the call is made again with the fresh one, because the old one may sleep until long after the cluster answers.
func (c *conn) repeat(ctx context.Context, op string, name []byte, f func(context.Context, *client) error) error {
	return c.run(ctx, op, name, func(ctx context.Context, cl *client) (*client, error) {
		for {
			limited, cancel := context.WithCancel(ctx)
			stop := context.AfterFunc(cl.current, cancel)
			err := f(limited, cl)
			stop()
			cancel()
			next := c.client.Load()
			if err == nil || ctx.Err() != nil || cl.current.Err() == nil || next == nil {
				return cl, err
			}
			cl = next
		}
	})
}

// run is do for a function that returns the client with which it ended.
func (c *conn) run(ctx context.Context, op string, name []byte, f func(context.Context, *client) (*client, error)) error {
	cl := c.client.Load()
	if cl == nil {
		return fmt.Errorf("hbase: %s %s: %w", op, name, table.ErrClosed)
	}
	if ctx.Err() != nil {
		return fmt.Errorf("hbase: %s %s: %w", op, name, context.Cause(ctx))
	}
	limited, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	begun := time.Now()
	cl, err := f(limited, cl)
	if err == nil {
		return nil
	}
	switch {
	case c.client.Load() == nil:
		err = table.ErrClosed
	case ctx.Err() != nil && !errors.Is(context.Cause(ctx), table.ErrUnavailable):
		err = context.Cause(ctx)
	case limited.Err() != nil:
		waited := time.Since(begun).Round(time.Millisecond)
		if e := busyAnswer(err); e != nil {
			err = fmt.Errorf("%w: %w for %v: %w", table.ErrUnavailable, table.ErrBusy, waited, e)
			break
		}
		c.suspect(cl)
		err = fmt.Errorf("%w: no answer within %v", table.ErrUnavailable, waited)
	default:
		err = classify(err)
	}
	return fmt.Errorf("hbase: %s %s: %w", op, name, err)
}

// send makes one raw call.
func (cl *client) send(rpc hrpc.Call) (proto.Message, error) {
	m, err := cl.raw.SendRPC(rpc)
	if a, ok := rpc.(interface{ lastRefusal() error }); ok && errors.Is(err, context.DeadlineExceeded) && a.lastRefusal() != nil {
		err = a.lastRefusal()
	}
	return m, err
}

// often is how often it is logged that calls get no answer although probes do. While a part of
// the cluster is silent, the client is replaced every few seconds.
const often = time.Minute

// young is the age up to which a client is not replaced: its pauses between attempts are still short.
const young = 2 * time.Second

// suspect records that a call on cl got no answer. It starts a goroutine that waits until the
// cluster answers a probe. After that, all calls use a fresh client, because the old client may
// sleep for half a minute before its next attempt.
func (c *conn) suspect(cl *client) {
	if c.client.Load() != cl || time.Since(cl.made) < young || c.life.Err() != nil || !c.watching.CompareAndSwap(false, true) {
		return
	}
	warn := time.Since(c.warned) >= often
	if warn {
		c.warned = time.Now()
		c.log.Warn("HBase does not answer", "store", c.target.String())
	}
	c.wg.Add(1)
	go func() {
		defer c.wg.Done()
		defer c.watching.Store(false)
		c.replace(cl, warn)
	}()
}

// replace waits until the cluster answers, and replaces the client old with a fresh one. The
// parameter warned says whether the silence was logged.
func (c *conn) replace(old *client, warned bool) {
	for logged := false; c.life.Err() == nil; {
		ctx, cancel := context.WithTimeout(c.life, c.timeout)
		err := c.await(ctx)
		cancel()
		if err != nil {
			if !logged && c.life.Err() == nil {
				c.log.Warn("HBase still does not answer", "store", c.target.String(), "error", err)
				logged, warned = true, true
			}
			continue
		}
		cl, err := c.newClient()
		if err != nil || !c.client.CompareAndSwap(old, cl) {
			return
		}
		if warned {
			c.log.Info("HBase answers again", "store", c.target.String())
		}
		old.replaced()
		// Swaps that are still running on the old client may succeed. All of them have
		// ended after one timeout.
		time.AfterFunc(c.timeout, old.close)
		return
	}
}
