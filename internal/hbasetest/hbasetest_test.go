package hbasetest

import (
	"context"
	"testing"
	"time"
)

// TestStart starts the instance, kills it and restarts it on the same data.
func TestStart(t *testing.T) {
	i := Shared(t)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	if err := Probe(ctx, i.Quorum()); err != nil {
		t.Fatal(err)
	}
	i.Kill()
	if err := Probe(ctx, i.Quorum()); err == nil {
		t.Fatal("a killed HBase answers")
	}
	if err := i.Restart(ctx); err != nil {
		t.Fatal(err)
	}
}
