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

// A Listener does nothing on this system. Without SO_PEERCRED a server could not know which
// user runs a tool, and so could trust no tool.
type Listener struct{}

// Listen fails on this system.
func Listen(string, *slog.Logger) (*Listener, error) { return nil, errors.ErrUnsupported }

// Serve does nothing on this system.
func (*Listener) Serve(context.Context, func(context.Context, *Call) error) {}

// Ask returns ErrNobody on this system.
func Ask(context.Context, string, Request) error { return ErrNobody }

// A Call is work that a tool has requested.
type Call struct {
	Work           string
	Args           json.RawMessage
	Terminal       bool
	Stdout, Stderr io.Writer
}

// Open fails on this system.
func (*Call) Open(string) (*os.File, error) { return nil, errors.ErrUnsupported }

// Create fails on this system.
func (*Call) Create(string) (*os.File, error) { return nil, errors.ErrUnsupported }
