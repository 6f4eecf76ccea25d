package integration

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-ldap/ldap/v3"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/seed-4dac0d86/ldapd/store/hbase/hbasetest"
)

// A spanCollector stands in for an OpenTelemetry collector.
type spanCollector struct {
	mu    sync.Mutex
	spans []*tracepb.Span
}

func (c *spanCollector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b, _ := io.ReadAll(r.Body)
	var d tracepb.TracesData
	if r.URL.Path != "/v1/traces" || proto.Unmarshal(b, &d) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, of := range d.ResourceSpans {
		for _, scope := range of.ScopeSpans {
			c.spans = append(c.spans, scope.Spans...)
		}
	}
}

// paths returns a path for each span: the names of its ancestors, from the outermost on,
// and then its own name.
func (c *spanCollector) paths() (paths []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	byID := map[string]*tracepb.Span{}
	for _, s := range c.spans {
		byID[string(s.SpanId)] = s
	}
	for _, s := range c.spans {
		path := s.Name
		for up := byID[string(s.ParentSpanId)]; up != nil; up = byID[string(up.ParentSpanId)] {
			path = up.Name + " > " + path
		}
		paths = append(paths, path)
	}
	return paths
}

// TestTraces traces all operations of a server on each engine. When the server is
// stopped, it must send the waiting spans.
func TestTraces(t *testing.T) {
	t.Parallel()
	for engine, store := range map[string]func(*testing.T) string{
		"embedded": func(t *testing.T) string { return filepath.Join(t.TempDir(), "store") },
		"hbase":    func(t *testing.T) string { return "hbase://" + hbasetest.Start(t) + "/" + hbasetest.Prefix(t) },
	} {
		t.Run(engine, func(t *testing.T) {
			c := &spanCollector{}
			collector := httptest.NewServer(c)
			defer collector.Close()
			place := store(t)
			importInto(t, place, example)
			p := serve(t, place, "--trace-endpoint", collector.URL, "--trace-ratio", "1")
			awaitWriter(t, p)
			addTo(t, p.admin(), "cn=traced,"+suffix, "device")
			if _, err := searchDN(p.admin(), suffix, ldap.ScopeWholeSubtree, "(cn=traced)"); err != nil {
				t.Fatal(err)
			}
			p.stop()
			got := c.paths()
			want := []string{"bind", "add", "add > prepare", "add > commit", "search", "search > plan"}
			for _, path := range want {
				if !slices.Contains(got, path) {
					t.Errorf("no span %s in %q", path, got)
				}
			}
			calls := slices.ContainsFunc(got, func(p string) bool { return strings.HasPrefix(p, "add > commit > ") })
			if calls != (engine == "hbase") {
				t.Errorf("calls of HBase's client below a commit: %v, in %s", calls, fmt.Sprint(got))
			}
			for _, s := range c.spans {
				if text := s.String(); strings.Contains(text, "traced") || strings.Contains(text, `"key"`) {
					t.Errorf("a span has the name of an entry: %s", text)
				}
			}
		})
	}
}
