package status_test

import (
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/status"
	"github.com/seed-4dac0d86/ldapd/store/txn"
)

// TestFaults checks which faults make a server not live, not ready for reads, and not
// ready for changes, and checks the reasons that are reported.
func TestFaults(t *testing.T) {
	is := func(s txn.Status) func(*status.Health) {
		return func(h *status.Health) { h.Serve(func() txn.Status { return s }) }
	}
	fault := errors.New("the fault")
	for name, c := range map[string]struct {
		happens             func(*status.Health)
		live, reads, writes string // what the reasons concern, or "" if there is none
		text                string
	}{
		"it starts":    {func(*status.Health) {}, "", "process", "process", "starts"},
		"it serves":    {is(txn.Status{}), "", "", "", ""},
		"it stops":     {func(h *status.Health) { is(txn.Status{})(h); h.Stop() }, "", "process", "process", "stops"},
		"disk full":    {is(txn.Status{Refusal: fault}), "", "", "writes", "the fault"},
		"lease lost":   {is(txn.Status{Refusal: fault, Shared: true}), "", "", "writes", "the fault"},
		"no heads":     {is(txn.Status{Stale: fault, Refusal: fault, Shared: true}), "", "store", "store writes", "the fault"},
		"log failed":   {is(txn.Status{Broken: fault, Refusal: fault}), "store", "store", "store writes", "the fault"},
		"store silent": {func(h *status.Health) { h.Serve(func() txn.Status { select {} }) }, "", "store", "store writes", "does not answer"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := status.NewHealth()
			c.happens(h)
			s := httptest.NewServer(status.Handler(status.Options{Health: h, Metrics: prometheus.NewRegistry(), Log: slog.New(slog.DiscardHandler)}))
			defer s.Close()
			for path, want := range map[string]string{"/live": c.live, "/ready": c.reads, "/ready?for=reads": c.reads, "/ready?for=writes": c.writes} {
				begun := time.Now()
				code, what, texts := ask(t, s.URL+path)
				if took := time.Since(begun); took > 20*time.Second {
					t.Errorf("%s took %v", path, took)
				}
				if strings.Join(what, " ") != want || (code == http.StatusOK) != (want == "") || want != "" && !strings.Contains(texts, c.text) {
					t.Errorf("%s: %d, %s: %s", path, code, what, texts)
				}
			}
			if h.IsLive() != (c.live == "") || h.IsReady(true) != (c.writes == "") {
				t.Error("IsLive or IsReady say something else")
			}
		})
	}
}

// ask fetches a page and returns its status code and the reasons on it.
func ask(t *testing.T, url string) (code int, what []string, texts string) {
	t.Helper()
	r, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	b, _ := io.ReadAll(r.Body)
	var said struct {
		Live, Ready *bool
		Reasons     []status.Reason
	}
	if err := json.Unmarshal(b, &said); err != nil {
		t.Fatalf("%s: %v", b, err)
	}
	yes := said.Live
	if yes == nil {
		yes = said.Ready
	}
	if yes == nil || *yes != (len(said.Reasons) == 0) || said.Reasons == nil {
		t.Errorf("%s", b)
	}
	for _, x := range said.Reasons {
		what = append(what, x.What)
		texts += x.Text
		if x.Since.IsZero() || time.Since(x.Since) > time.Minute {
			t.Errorf("since %v", x.Since)
		}
	}
	slices.Sort(what)
	return r.StatusCode, what, texts
}

// TestSince checks the times of reasons. A reason that continues must keep its time. A
// reason that returns after an interruption must have a new time.
func TestSince(t *testing.T) {
	h, down := status.NewHealth(), errors.New("down")
	h.Serve(func() txn.Status { return txn.Status{Stale: down} })
	first := h.Ready(false)[0].Since
	if again := h.Ready(false)[0].Since; !again.Equal(first) {
		t.Errorf("%v, then %v", first, again)
	}
	up := down
	down = nil
	h.Ready(false)
	down = up
	time.Sleep(time.Millisecond)
	if later := h.Ready(false)[0].Since; !later.After(first) {
		t.Errorf("%v, then %v", first, later)
	}
}
