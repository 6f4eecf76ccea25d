package serving

import (
	"fmt"
	"io"
	"log/slog"
	"os"

	"gopkg.in/natefinch/lumberjack.v2"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/config"
)

// openAccessLog opens the access log. The log is nil if no access log is configured. The caller
// must close closer after serving.
func (s *serving) openAccessLog(c *config.Config) (log *slog.Logger, closer io.Closer, err error) {
	var w io.WriteCloser = nopCloser{s.Stderr}
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
