package table

import "context"

// A Copier is a Table that can write all that it contains to another table, in another form. The
// tables of all engines are Copiers.
type Copier interface {
	// CopyTo writes everything that the table contains to a table of the same engine, in the form that
	// w gives it: all versions with their revisions, tombstones and deletions of rows. The other table
	// must have the same families, and contain nothing but what an earlier call for the same table
	// wrote. When CopyTo returns nil, all of it is durable.
	//
	// Only revisions in the span need be copied, and no later ones may be. Of an unversioned
	// table everything is copied. Others may write to the table meanwhile, but no revision in the
	// span.
	CopyTo(ctx context.Context, to Table, w Rewriter, span RevisionSpan) error
}

// A RevisionSpan contains the revisions after After, up to and including UpTo. If UpTo is 0, it has no
// end.
type RevisionSpan struct{ After, UpTo Revision }

// Has reports whether the span contains r.
func (s RevisionSpan) Has(r Revision) bool { return r > s.After && (s.UpTo == 0 || r <= s.UpTo) }

// A Rewriter gives the rows and cells of a table another form. Two rows must not get the same key, and
// two columns of a row not the same qualifier. A method that returns an error ends the copy. Several
// goroutines may call the methods at once.
type Rewriter interface {
	// Row returns the new key of a row, or nil if the copy leaves the row out. An engine may call Row
	// several times for one row.
	Row(key []byte) ([]byte, error)
	// Cell replaces the qualifier and the value of a cell of any version. It must not change the bytes
	// of either. It returns false if the copy leaves the cell out.
	Cell(c *Cell) (keep bool, err error)
}
