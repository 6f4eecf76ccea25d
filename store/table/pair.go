package table

import "context"

// A Pairer is a Table that makes two calls in one round trip. The functions ApplyVersions and SwapGet make
// the calls of tables that are no Pairers one after the other.
type Pairer interface {
	Versioner
	ApplyVersions(ctx context.Context, r Revision, ms []Mutation, rows [][]byte, f Family, after Revision) ([]Row, error)
	SwapGet(ctx context.Context, row []byte, f Family, q, old []byte, cells []Cell) (bool, Row, error)
}

// ApplyVersions is Apply, followed by Versions of some of the rows that ms changes. Each row is read after
// it was written. Other rows may be written later. t must be a Versioner.
func ApplyVersions(ctx context.Context, t Table, r Revision, ms []Mutation, rows [][]byte, f Family, after Revision) ([]Row, error) {
	if p, ok := t.(Pairer); ok {
		return p.ApplyVersions(ctx, r, ms, rows, f, after)
	}
	if err := t.Apply(ctx, r, ms); err != nil {
		return nil, err
	}
	return t.(Versioner).Versions(ctx, rows, f, after)
}

// SwapGet is Swap, followed by a Get of the row. If the swap returns an error, the row is not read.
func SwapGet(ctx context.Context, t Table, row []byte, f Family, q, old []byte, cells []Cell) (bool, Row, error) {
	if p, ok := t.(Pairer); ok {
		return p.SwapGet(ctx, row, f, q, old, cells)
	}
	ok, err := t.Swap(ctx, row, f, q, old, cells)
	if err != nil {
		return false, Row{}, err
	}
	got, err := t.Get(ctx, row, Select{})
	return ok, got, err
}
