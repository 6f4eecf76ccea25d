package zookeeper

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/tsuna/gohbase/zk"

	"github.com/seed-4dac0d86/ldapd/store/gss/layer"
)

// node is what HBase writes to ZooKeeper for the server rs1:16020.
const node = "\xff\x00\x00\x00\x02idPBUF\x0a\x08\x0a\x03rs1\x10\x94\x7d"

// standIn returns a dialer to a stand-in that has one node.
func standIn(wrap func(net.Conn) net.Conn) func(context.Context, string, string) (net.Conn, error) {
	return func(context.Context, string, string) (net.Conn, error) {
		near, far := net.Pipe()
		go StandIn(far, func(path string) ([]byte, error) {
			if path != "/hbase/meta-region-server" {
				return nil, errors.New("no such node")
			}
			return []byte(node), nil
		})
		return wrap(near), nil
	}
}

// gohbase finds a node at the stand-in, also if the connection returns one octet at a time, and gets an error for what
// is not there.
func TestStandIn(t *testing.T) {
	for name, wrap := range map[string]func(net.Conn) net.Conn{
		"whole":    func(c net.Conn) net.Conn { return c },
		"dripping": func(c net.Conn) net.Conn { return dripping{c} },
	} {
		c := zk.NewClient("127.0.0.1:1", 2*time.Second, standIn(wrap), slog.New(slog.DiscardHandler))
		if addr, err := c.LocateResource(zk.Meta.Prepend("/hbase")); err != nil || addr != "rs1:16020" {
			t.Errorf("%s: %q, %v", name, addr, err)
		}
		if addr, err := c.LocateResource(zk.Master.Prepend("/hbase")); err == nil {
			t.Errorf("%s: the master is %q", name, addr)
		}
	}
}

type dripping struct{ net.Conn }

func (d dripping) Read(b []byte) (int, error) { return d.Conn.Read(b[:min(1, len(b))]) }

// frames returns the frames of what a client of the stand-in sends, for a Get.
func frames() []byte {
	hello := make([]byte, 44)
	get := layer.Append([]byte{0, 0, 0, 1, 0, 0, 0, codeGet}, []byte("/hbase/meta-region-server"))
	return layer.Append(layer.Append(nil, hello), append(get, 0))
}

// FuzzStandIn checks that the stand-in ends with the connection, whatever it reads.
func FuzzStandIn(f *testing.F) {
	for i := range frames() {
		f.Add(frames()[:i])
	}
	f.Add(layer.Append(layer.Append(nil, make([]byte, 16)), []byte{0, 0, 0, 1, 0, 0, 0, codeGet, 0x7f, 0xff, 0xff, 0xff}))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		near, far := net.Pipe()
		ended := make(chan struct{})
		go func() {
			StandIn(far, func(string) ([]byte, error) { return []byte(node), nil })
			close(ended)
		}()
		go io.Copy(io.Discard, near)
		_, _ = near.Write(b)
		near.Close()
		<-ended
	})
}

// sasl answers a session with hello, and tokens with replies. After two of them it returns what it reads.
func sasl(c net.Conn, hello []byte, replies ...[]byte) {
	defer c.Close()
	if _, err := readFrame(c); err != nil {
		return
	}
	if writeFrame(c, hello) != nil {
		return
	}
	for _, r := range replies {
		request, err := readFrame(c)
		if err != nil || int32(binary.BigEndian.Uint32(request[4:])) != codeSASL {
			return
		}
		if _, err := c.Write(r); err != nil {
			return
		}
	}
	if len(replies) == 2 {
		_, _ = io.Copy(c, c)
	}
}

func reply(code byte, token []byte) []byte {
	b := make([]byte, replyHeader)
	b[replyHeader-1] = code
	return layer.Append(nil, layer.Append(b, token))
}

// Tokens are exchanged after the server's first frame and before the client reads it. Answers that are cut at any octet, or
// that are errors, are errors.
func TestAuthenticate(t *testing.T) {
	hello := bytes.Repeat([]byte("h"), 37)
	exchange := func(ask func([]byte) ([]byte, error)) error {
		for _, token := range []string{"one", "two"} {
			got, err := ask([]byte(token))
			if err != nil {
				return err
			}
			if string(got) != strings.ToUpper(token) {
				return errors.New("answer " + string(got))
			}
		}
		return nil
	}
	try := func(replies ...[]byte) ([]byte, error) {
		near, far := net.Pipe()
		defer near.Close()
		go sasl(far, hello, replies...)
		c := Authenticate(dripping{near}, exchange)
		if err := writeFrame(c, make([]byte, 44)); err != nil {
			return nil, err
		}
		got, err := readFrame(c)
		if err != nil {
			return nil, err
		}
		if err := writeFrame(c, []byte("what follows")); err != nil {
			return nil, err
		}
		rest, err := readFrame(c)
		return append(got, rest...), err
	}
	one, two := reply(0, []byte("ONE")), reply(0, []byte("TWO"))
	if got, err := try(one, two); err != nil || string(got) != string(hello)+"what follows" {
		t.Errorf("%q, %v", got, err)
	}
	for name, replies := range map[string][][]byte{
		"refused": {one, reply(115, nil)}, "null": {layer.Append(nil, append(make([]byte, replyHeader), 0xff, 0xff, 0xff, 0xff))},
		"other": {one, reply(0, []byte("three"))}, "long token": {layer.Append(nil, append(make([]byte, replyHeader), 0, 0, 0, 9))},
		"negative": {layer.Append(nil, append(make([]byte, replyHeader), 0xff, 0xff, 0xff, 0xfe))}, "large": {{0xff, 0xff, 0xff, 0xff}},
	} {
		if got, err := try(replies...); err == nil {
			t.Errorf("%s: %q", name, got)
		}
	}
	for i := range one {
		if got, err := try(one[:i]); err == nil {
			t.Errorf("%d octets: %q", i, got)
		}
	}
}
