//go:build !linux

package handoff

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os"
)

// A Listener is where tools ask: here, nowhere. Without SO_PEERCRED nobody could
// be trusted.
type Listener struct{}

// Listen fails here.
func Listen(string, *slog.Logger) (*Listener, error) { return nil, errors.ErrUnsupported }

// Serve does nothing here.
func (*Listener) Serve(context.Context, func(context.Context, *Call) error) {}

// Ask finds nobody here.
func Ask(context.Context, string, Request) error { return ErrNobody }

// A Call is work that a tool asked for.
type Call struct {
	Work           string
	Args           json.RawMessage
	Terminal       bool
	Stdout, Stderr io.Writer
}

// Open fails here.
func (*Call) Open(string) (*os.File, error) { return nil, errors.ErrUnsupported }

// Create fails here.
func (*Call) Create(string) (*os.File, error) { return nil, errors.ErrUnsupported }
