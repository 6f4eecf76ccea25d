package journal

import (
	"github.com/seed-4dac0d86/ldapd/store/revision"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// HeadWrite returns the mutation that writes a slot's cell, for use in a batch. The
// caller must know that nobody else changes the cell.
func HeadWrite(s revision.Slot, c *revision.Cell) table.Mutation {
	return table.Mutation{Row: headsRow, Cells: []table.Cell{{Family: clusterFamily, Qualifier: slotColumn(s), Value: c.Append(nil)}}}
}

// ArchiveWrite returns the mutations that free a slot, for use in a batch. They write
// the archive and the free cell. ArchiveWrite also sets *c to the free cell.
func ArchiveWrite(s revision.Slot, c *revision.Cell) []table.Mutation {
	a := c.Archive()
	archive := table.Mutation{Row: archiveKey(s, c.Incarnation), Cells: []table.Cell{{Family: clusterFamily, Qualifier: archiveColumn, Value: a.Append(nil)}}}
	*c = c.Freed()
	return []table.Mutation{archive, HeadWrite(s, c)}
}
