package tabletest

import (
	"testing"

	"github.com/seed-4dac0d86/ldapd/store/table"
)

func TestMemConforms(t *testing.T) {
	Run(t, func(*testing.T) table.Store { return NewMem() })
}

func TestBatchMemConforms(t *testing.T) {
	Run(t, func(*testing.T) table.Store { return NewBatchMem() })
}
