package monitor

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

func TestWarnings(t *testing.T) {
	var w Warnings
	log := slog.New(w.Handler()).With("store", "data")
	log.Info("not kept")
	if got := w.Lines(); len(got) != 0 {
		t.Errorf("kept %q", got)
	}
	for i := range maxWarnings + 5 {
		log.Warn(fmt.Sprint("warning ", i))
	}
	log.Error("long", "text", strings.Repeat("é", maxWarning))
	got := w.Lines()
	if len(got) != maxWarnings {
		t.Fatalf("%d lines", len(got))
	}
	if len(got[0]) > maxWarning || !strings.Contains(got[0], `level=ERROR msg=long store=data text=éé`) {
		t.Errorf("the newest is %q", got[0])
	}
	if last := got[len(got)-1]; !strings.HasSuffix(last, `level=WARN msg="warning 6" store=data`) {
		t.Errorf("the oldest is %q", last)
	}
}
