package conformance

import (
	"testing"

	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/table/tabletest"
)

func TestMemConforms(t *testing.T) {
	Run(t, func(*testing.T) table.Store { return tabletest.NewMem() })
}

func TestBatchMemConforms(t *testing.T) {
	Run(t, func(*testing.T) table.Store { return tabletest.NewBatchMem() })
}
