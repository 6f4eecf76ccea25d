package archive

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var crashes = flag.Int("crashes", 30, "how often TestCrashes kills the process")

// child is the environment variable that makes the test binary run as the process that
// TestCrashes kills.
const child = "LDAPD_ARCHIVE_CHILD"

func TestMain(m *testing.M) {
	if dir := os.Getenv(child); dir != "" {
		fmt.Println(live(dir))
		os.Exit(1)
	}
	flag.Parse()
	os.Exit(m.Run())
}

// flaky is a place whose calls, except Get, fail at random before or after they have done their
// work.
type flaky struct {
	Place
	part float64
}

var errFlaky = errors.New("the network is gone")

func (f flaky) do(call func() error) error {
	x := rand.Float64() / f.part
	if x < 0.5 {
		return errFlaky
	}
	err := call()
	if err == nil && x < 1 {
		err = errFlaky
	}
	return err
}

// Put implements Place.
func (f flaky) Put(ctx context.Context, name string, r io.Reader) error {
	return f.do(func() error { return f.Place.Put(ctx, name, r) })
}

// Swap implements Place.
func (f flaky) Swap(ctx context.Context, name, tag string, data []byte) error {
	return f.do(func() error { return f.Place.Swap(ctx, name, tag, data) })
}

// Read implements Place.
func (f flaky) Read(ctx context.Context, name string) (data []byte, tag string, err error) {
	err = f.do(func() (err error) { data, tag, err = f.Place.Read(ctx, name); return err })
	return data, tag, err
}

// List implements Place.
func (f flaky) List(ctx context.Context, prefix string) (all []Object, err error) {
	err = f.do(func() (err error) { all, err = f.Place.List(ctx, prefix); return err })
	return all, err
}

// Delete implements Place.
func (f flaky) Delete(ctx context.Context, name string) error {
	return f.do(func() error { return f.Place.Delete(ctx, name) })
}

// live commits and archives until it is killed. It prints the number of commits that
// have been acknowledged, and the number that have been archived.
func live(dir string) (err error) {
	f := &fixture{T: &testing.T{}, folder: filepath.Join(dir, "store"), place: flaky{folder(filepath.Join(dir, "archive")), 0.1}}
	f.o = Options{Every: time.Millisecond, Lag: time.Millisecond, Keep: time.Second}
	f.open()
	start, _ := strconv.Atoi(os.Getenv("LDAPD_ARCHIVE_N"))
	f.n = start
	var print sync.Mutex
	say := func(what string, n int) {
		print.Lock()
		defer print.Unlock()
		fmt.Println(what, n)
	}
	var done, archived atomic.Int64
	done.Store(int64(start))
	archived.Store(int64(start))
	ctx := context.Background()
	go func() {
		for {
			n := done.Load()
			if f.a.Pieces(ctx) == nil {
				say("archived", int(n))
				archived.Store(n)
			}
			time.Sleep(time.Millisecond)
		}
	}()
	go func() {
		for {
			time.Sleep(time.Duration(rand.IntN(30)) * time.Millisecond)
			f.a.turn(ctx)
		}
	}()
	for loaded := int64(start); ; {
		// On a busy machine, commits would take all time and the store would outgrow the archive. A load ends the epoch, so
		// loads would come faster than the first base of an epoch is complete.
		switch behind := int64(f.n) - archived.Load(); {
		case behind > 3000:
			time.Sleep(10 * time.Millisecond)
			continue
		case rand.IntN(200) == 0 && archived.Load() >= loaded:
			f.load()
			loaded = int64(f.n)
		default:
			f.commit(1 + rand.IntN(5))
		}
		done.Store(int64(f.n))
		say("acknowledged", f.n)
	}
}

// TestCrashes kills a process that commits and archives, while calls to the archive fail at
// random (see flaky). The restored store must be consistent. It must contain all commits
// that are known to be archived, and none that the original store has lost.
func TestCrashes(t *testing.T) {
	dir := t.TempDir()
	place := folder(filepath.Join(dir, "archive"))
	n, epochs := 0, Epoch(0)
	for round := range *crashes {
		after := time.Duration(20+rand.IntN(120)) * time.Millisecond
		if epochs == 0 { // a busy machine takes longer to complete the first base
			after *= time.Duration(round + 1)
		}
		said := crash(t, dir, n, after)
		n = rows(t, filepath.Join(dir, "store"))
		if n < said["acknowledged"] {
			t.Fatalf("round %d: the store has %d commits, and %d were acknowledged", round, n, said["acknowledged"])
		}
		to := filepath.Join(dir, "restored")
		done, err := Restore(context.Background(), place, RestoreOptions{To: to, Copy: true})
		if errors.Is(err, ErrNoState) && said["archived"] == 0 && epochs == 0 {
			continue // the process was killed before its first base was complete
		}
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		epochs = max(epochs, done.Base.Epoch)
		if got := rows(t, to); got > n || got < said["archived"] {
			t.Fatalf("round %d: %d commits were restored, %d were archived, the store has %d", round, got, said["archived"], n)
		}
		if err := os.RemoveAll(to); err != nil {
			t.Fatal(err)
		}
	}
	v, err := Verify(context.Background(), place, func(err error) { t.Error(err) })
	if err != nil || v.Objects == 0 || n < *crashes {
		t.Error(v, n, err)
	}
	t.Logf("%d commits, %d epochs, %d objects, %d bytes", n, epochs, v.Objects, v.Bytes)
}

// crash runs the process, and kills it when the given time has passed since its first
// output. It returns the last numbers that the process printed.
func crash(t *testing.T, dir string, n int, after time.Duration) map[string]int {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), child+"="+dir, "LDAPD_ARCHIVE_N="+strconv.Itoa(n))
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	said := map[string]int{}
	lines := bufio.NewScanner(out)
	var kill *time.Timer
	for lines.Scan() {
		if kill == nil { // the process has begun
			kill = time.AfterFunc(after, func() { cmd.Process.Kill() })
		}
		what, number, _ := strings.Cut(lines.Text(), " ")
		if said[what], err = strconv.Atoi(number); err != nil {
			t.Fatalf("the process said %q", lines.Text())
		}
	}
	cmd.Wait()
	if kill == nil {
		t.Fatalf("the process ended by itself: %s", errs.String())
	}
	return said
}
