package bulk

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/store/table/tabletest"
)

// safeBuffer is a buffer that several goroutines may use.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func TestProgressLines(t *testing.T) {
	var out safeBuffer
	p := NewProgress(&out, false, "import")
	p.every = time.Millisecond
	p.total.Store(1000)
	p.Begin()
	waitFor := func(want string) {
		t.Helper()
		for range 2000 {
			if strings.Contains(out.String(), want) {
				return
			}
			time.Sleep(time.Millisecond)
		}
		t.Errorf("no %q in %q", want, out.String())
	}
	p.entries.Store(50)
	p.bytes.Store(250)
	waitFor("import: 50 entries, ")
	waitFor(", 25%, about ")
	p.finishing(1, 4)
	waitFor(", writing tables 25%")
	p.End()
	if n := len(out.String()); n == 0 {
		t.Error("nothing shown")
	}
	if got := p.Rate(50); !strings.HasPrefix(got, "50 entries in ") {
		t.Errorf("rate: %s", got)
	}
}

func TestProgressBar(t *testing.T) {
	var out safeBuffer
	p := NewProgress(&out, true, "import")
	p.total.Store(1000)
	p.Begin()
	p.entries.Store(50)
	p.bytes.Store(1000)
	for range 300 {
		if strings.Contains(out.String(), "50 entries") {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	p.End()
	if !strings.Contains(out.String(), "import") || !strings.Contains(out.String(), "50 entries") {
		t.Errorf("shown: %q", out.String())
	}
}

// cancelling is an input that cancels the context at its end.
type cancelling struct {
	text   *strings.Reader
	cancel func()
}

func (c *cancelling) Read(p []byte) (int, error) {
	n, err := c.text.Read(p)
	if n == 0 {
		c.cancel()
	}
	return n, err
}

// TestInterrupted interrupts an import, as Ctrl-C does. Nothing must be imported, and the next
// import must succeed.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	p, err := partition.Open(context.Background(), tabletest.NewBatchMem(), partition.Options{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close(context.Background())
	const text = "dn: dc=example,dc=com\nobjectClass: domain\n\n"
	path := filepath.Join(t.TempDir(), "a")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	res, err := Import(ctx, p, Options{
		Files: []string{path, stdin},
		Stdin: &cancelling{strings.NewReader("dn: ou=a,dc=example,dc=com\nobjectClass: organizationalUnit\n\n"), cancel},
	})
	if err == nil || !strings.Contains(err.Error(), "nothing was imported; run the same command again") || res.Done != 0 || errors.Is(err, ErrBad) {
		t.Errorf("%v, %d done", err, res.Done)
	}
	if got := p.Config().Suffixes; len(got) > 0 {
		t.Errorf("left behind: %q", got)
	}
	// The partition can be written to again.
	if _, err := Import(context.Background(), p, Options{Files: []string{path}}); err != nil {
		t.Error(err)
	}
}
