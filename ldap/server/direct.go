//go:build !linux

package server

import "net"

type direct struct{}

// newDirect returns nil: on this system, package net reads and writes.
func newDirect(net.Conn) *direct { return nil }

func (*direct) read([]byte) (int, error)  { panic("not reached") }
func (*direct) write([]byte) (int, error) { panic("not reached") }
