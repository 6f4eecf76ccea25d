package cli

import (
	"log/slog"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/config"
)

// Logger returns a logger that writes one line for each event to standard error.
func (m *Main) Logger(c *config.Config) *slog.Logger {
	m.SetLevel(c)
	o := &slog.HandlerOptions{Level: &m.level}
	if c.LogFormat == "json" {
		o.ReplaceAttr = withUnit
		return slog.New(slog.NewJSONHandler(m.Stderr, o))
	}
	return slog.New(slog.NewTextHandler(m.Stderr, o))
}

// withUnit prints durations in the form "1.5s", because the JSON handler would print
// nanoseconds without a unit.
func withUnit(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().String())
	}
	return a
}

// SetLevel sets the level of all loggers of the process.
func (m *Main) SetLevel(c *config.Config) {
	var level slog.Level
	_ = level.UnmarshalText([]byte(c.LogLevel)) // checked by package config
	m.level.Set(level)
}
