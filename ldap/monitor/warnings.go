package monitor

import (
	"log/slog"
	"slices"
	"strings"
	"sync"
)

// Warnings are the newest warnings and errors of a process's log.
type Warnings struct {
	mu    sync.Mutex
	lines []string // the oldest first
}

// maxWarnings bounds the number of warnings that are kept, and maxWarning the octets of each.
const (
	maxWarnings = 20
	maxWarning  = 1000
)

// Handler returns a handler that keeps warnings and errors.
func (w *Warnings) Handler() slog.Handler {
	return slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelWarn})
}

// Write keeps a line of the log.
func (w *Warnings) Write(line []byte) (int, error) {
	text := strings.ToValidUTF8(string(line[:min(len(line), maxWarning)]), "?")
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lines = append(w.lines[max(0, len(w.lines)-maxWarnings+1):], strings.TrimRight(text, "\n"))
	return len(line), nil
}

// Lines returns the lines of the log, each of the form time=T level=L msg="M" and further pairs, the newest first.
func (w *Warnings) Lines() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	lines := slices.Clone(w.lines)
	slices.Reverse(lines)
	return lines
}
