package hbase

import (
	"context"
	"log/slog"
)

// debugOnly lowers gohbase's log messages to debug level. Otherwise gohbase would log
// every region that it finds. It would also log each lost connection as an error,
// although it then restores the connection. The store itself logs when the cluster stops
// answering.
type debugOnly struct{ slog.Handler }

func (w debugOnly) Enabled(ctx context.Context, _ slog.Level) bool {
	return w.Handler.Enabled(ctx, slog.LevelDebug)
}

func (w debugOnly) Handle(ctx context.Context, r slog.Record) error {
	r.Level = slog.LevelDebug
	return w.Handler.Handle(ctx, r)
}

func (w debugOnly) WithAttrs(as []slog.Attr) slog.Handler { return debugOnly{w.Handler.WithAttrs(as)} }
func (w debugOnly) WithGroup(name string) slog.Handler    { return debugOnly{w.Handler.WithGroup(name)} }
