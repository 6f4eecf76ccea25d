package hbase

import (
	"context"
	"log/slog"
)

// whisper makes gohbase's log messages ones for debugging. It reports every
// region it meets, and each lost connection as an error that it then cures; the
// store itself says when the cluster is away.
type whisper struct{ slog.Handler }

func (w whisper) Enabled(ctx context.Context, _ slog.Level) bool {
	return w.Handler.Enabled(ctx, slog.LevelDebug)
}

func (w whisper) Handle(ctx context.Context, r slog.Record) error {
	r.Level = slog.LevelDebug
	return w.Handler.Handle(ctx, r)
}

func (w whisper) WithAttrs(as []slog.Attr) slog.Handler { return whisper{w.Handler.WithAttrs(as)} }
func (w whisper) WithGroup(name string) slog.Handler    { return whisper{w.Handler.WithGroup(name)} }
