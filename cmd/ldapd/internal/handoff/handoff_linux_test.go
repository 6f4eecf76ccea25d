package handoff

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// serve serves a new folder until the test ends or stop is called.
func serve(t *testing.T, do func(context.Context, *Call) error) (folder string, stop func()) {
	t.Helper()
	folder = t.TempDir()
	l, err := Listen(folder, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { l.Serve(ctx, do) })
	stop = func() { cancel(); wg.Wait() }
	t.Cleanup(stop)
	return folder, stop
}

func TestWork(t *testing.T) {
	folder, _ := serve(t, func(_ context.Context, c *Call) error {
		var name string
		if err := json.Unmarshal(c.Args, &name); err != nil {
			return err
		}
		f, err := c.Open(name)
		if err != nil {
			return err
		}
		defer f.Close()
		if _, err := io.Copy(c.Stdout, f); err != nil {
			return err
		}
		io.WriteString(c.Stderr, c.Work)
		return &Failure{Text: "so it is", Usage: true}
	})
	file := filepath.Join(t.TempDir(), "file")
	large := strings.Repeat("large ", 1<<16) // more than fits into the buffers of pipes and sockets
	if err := os.WriteFile(file, []byte(large), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, want, failure string
	}{
		{Stdin, large, "so it is"},
		{file, large, "so it is"},
		{"/etc/passwd", "", "not that one"},
		{large, "", "not that one"},
	} {
		var out, errors bytes.Buffer
		err := Ask(t.Context(), folder, Request{
			Work: "copy", Args: c.name, Stdin: strings.NewReader(large), Stdout: &out, Stderr: &errors,
			Open: func(name string) (*os.File, error) {
				if name != file {
					return nil, &Failure{Text: "not that one"}
				}
				return os.Open(name)
			},
		})
		if err == nil || err.Error() != c.failure || out.String() != c.want {
			t.Errorf("%.20s: %d bytes, %v", c.name, out.Len(), err)
		}
		if want := map[bool]string{true: "copy"}[c.want != ""]; errors.String() != want {
			t.Errorf("%.20s: standard error has %q", c.name, errors.String())
		}
	}
}

func TestNothingIsGivenUnasked(t *testing.T) {
	folder, _ := serve(t, func(_ context.Context, c *Call) error {
		_, err := c.Create("x")
		return err
	})
	err := Ask(t.Context(), folder, Request{Stdout: io.Discard, Stderr: io.Discard})
	if err == nil || err.Error() != "the tool gives no such file" {
		t.Fatal(err)
	}
}

func TestPanicIsAFailure(t *testing.T) {
	folder, _ := serve(t, func(context.Context, *Call) error { panic("what now") })
	for range 2 {
		err := Ask(t.Context(), folder, Request{Stdout: io.Discard, Stderr: io.Discard})
		if err == nil || !strings.Contains(err.Error(), "what now") {
			t.Fatal(err)
		}
	}
}

// TestInterrupt checks that a tool that is interrupted still receives the result of its
// work.
func TestInterrupt(t *testing.T) {
	begun := make(chan struct{})
	folder, _ := serve(t, func(ctx context.Context, c *Call) error {
		close(begun)
		<-ctx.Done()
		io.WriteString(c.Stdout, "in order")
		return errors.New("interrupted")
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-begun; cancel() }()
	var out bytes.Buffer
	err := Ask(ctx, folder, Request{Stdout: &out, Stderr: io.Discard})
	if err == nil || err.Error() != "interrupted" || out.String() != "in order" {
		t.Fatalf("%q, %v", out.String(), err)
	}
}

// endless returns work that writes output until writing fails.
func endless(began func(), ended chan<- error) func(context.Context, *Call) error {
	return func(_ context.Context, c *Call) error {
		began()
		for {
			if _, err := c.Stdout.Write(make([]byte, 1<<16)); err != nil {
				ended <- err
				return err
			}
		}
	}
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("no space") }

// TestOutputTaken checks that the work ends if the tool cannot write the output of the
// work.
func TestOutputTaken(t *testing.T) {
	ended := make(chan error, 1)
	folder, _ := serve(t, endless(func() {}, ended))
	err := Ask(t.Context(), folder, Request{Stdout: brokenWriter{}, Stderr: io.Discard})
	if err == nil || err.Error() != "no space" {
		t.Fatal(err)
	}
	<-ended
}

// silentTool sends a request and then reads neither the output nor the end of the work.
func silentTool(t *testing.T, folder string) *net.UnixConn {
	t.Helper()
	f, err := openPath(folder)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	c, err := f.dial()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	t.Cleanup(func() { in.Close() })
	if err := send(c, request{Work: "x"}, out, out); err != nil {
		t.Fatal(err)
	}
	return c
}

// TestStopBesideSilentTool checks that a stopping server does not wait for a tool that
// reads no output.
func TestStopBesideSilentTool(t *testing.T) {
	defer func(was time.Duration) { lastWords = was }(lastWords)
	lastWords = time.Millisecond
	begun, ended := make(chan struct{}), make(chan error, 1)
	folder, stop := serve(t, endless(func() { close(begun) }, ended))
	silentTool(t, folder)
	<-begun
	stop()
	if err := <-ended; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal(err)
	}
	if _, err := os.Lstat(filepath.Join(folder, Name)); !errors.Is(err, os.ErrNotExist) {
		t.Error("the socket is still there:", err)
	}
}

// TestGarbage checks that the server ignores a message that is not a request, and serves
// the request that follows.
func TestGarbage(t *testing.T) {
	folder, _ := serve(t, func(context.Context, *Call) error { return nil })
	for _, garbage := range []string{"", "\x00\x00", "\x00\x00\x00\x04nope", "\xff\xff\xff\xffx", "\x00\x00\x00\x02{}"} {
		c, err := net.Dial("unix", filepath.Join(folder, Name))
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(c, garbage)
		c.(*net.UnixConn).CloseWrite()
		if rest, err := io.ReadAll(c); len(rest) > 0 || err != nil && !strings.Contains(err.Error(), "reset") {
			t.Errorf("%q was answered %q, %v", garbage, rest, err)
		}
		c.Close()
	}
	if err := Ask(t.Context(), folder, Request{Stdout: io.Discard, Stderr: io.Discard}); err != nil {
		t.Fatal(err)
	}
}

func TestNobody(t *testing.T) {
	folder, stop := serve(t, nil)
	stop()
	r := Request{Stdout: io.Discard, Stderr: io.Discard}
	if err := Ask(t.Context(), folder, r); !errors.Is(err, ErrNobody) {
		t.Error(err)
	}
	if err := os.Symlink("/dev/null", filepath.Join(folder, Name)); err != nil {
		t.Fatal(err)
	}
	if err := Ask(t.Context(), folder, r); !errors.Is(err, ErrNobody) {
		t.Error(err)
	}
	if _, err := Listen(folder, slog.New(slog.DiscardHandler)); err == nil {
		t.Error("a symbolic link was replaced")
	}
}
