package main

import (
	"fmt"
	"io"
	"log/slog"
	"os"

	"gopkg.in/natefinch/lumberjack.v2"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/config"
)

// logger returns a logger that writes one line for each event to standard error.
func (m *Main) logger(c *config.Config) *slog.Logger {
	m.setLevel(c)
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

// setLevel sets the level of all loggers of the process.
func (m *Main) setLevel(c *config.Config) {
	var level slog.Level
	_ = level.UnmarshalText([]byte(c.LogLevel)) // checked by package config
	m.level.Set(level)
}

// openAccessLog opens the access log. The log is nil if no access log is configured. The caller
// must close closer after serving.
func (m *Main) openAccessLog(c *config.Config) (log *slog.Logger, closer io.Closer, err error) {
	var w io.WriteCloser = nopCloser{m.Stderr}
	switch c.Access.File {
	case "":
		return nil, w, nil
	case "-":
	default:
		// The file is opened here only to report an error at once.
		f, err := os.OpenFile(c.Access.File, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, nil, &config.Error{Where: c.Origin("log.access"), Text: fmt.Sprintf("log.access: %v", err)}
		}
		f.Close()
		w = &lumberjack.Logger{
			Filename:   c.Access.File,
			MaxSize:    int(max(c.Access.Size>>20, 1)),
			MaxBackups: c.Access.Keep,
			Compress:   true,
		}
	}
	return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{ReplaceAttr: accessAttr})), w, nil
}

// accessAttr renames the message to "op" and removes the level.
func accessAttr(groups []string, a slog.Attr) slog.Attr {
	switch {
	case len(groups) > 0:
	case a.Key == slog.LevelKey:
		return slog.Attr{}
	case a.Key == slog.MessageKey:
		a.Key = "op"
	}
	return a
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }
