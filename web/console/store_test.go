package console_test

import (
	"net/http"
	"testing"
)

// TestStore checks that the page of the store shows metrics in words, to whoever may read the monitor.
func TestStore(t *testing.T) {
	s := newSite(t)
	v := s.logged(admin, "secret")
	v.get("/store")
	v.shows("On the disk", "store compaction debt", "5 MiB", "The past", "gc last success", "never", "head age", "250ms", "cache hit", "50 %")
	v = s.logged(jdoe, "opensesame")
	if v.get("/store"); v.status == http.StatusOK {
		t.Errorf("jdoe sees the store: %d", v.status)
	}
}
