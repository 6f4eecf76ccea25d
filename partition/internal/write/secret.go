package write

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"

	"github.com/seed-4dac0d86/ldapd/partition/internal/catalog"
	"github.com/seed-4dac0d86/ldapd/table"
)

var (
	secretRow    = []byte("secret")
	secretColumn = []byte("secret")
)

const secretSize = 32

// Secret returns random bytes that all servers of the store share and nobody else
// knows: who is to make or to recognise signatures derives keys from them. They
// are made when they are first asked for, and stand beside the header, in a row of
// their own, so that no export has them. A store that has none and takes no writes
// now, as on a full disk, leaves each server its own until it starts again.
func Secret(ctx context.Context, p *catalog.Keeper) ([]byte, error) {
	fresh := make([]byte, secretSize)
	rand.Read(fresh) // never fails (crypto/rand)
	t := p.Store.Table(catalog.HeaderTable)
	cell := table.Cell{Family: catalog.HeaderFamily, Qualifier: secretColumn, Value: fresh}
	// Whatever Swap says, what stands there then is the secret.
	_, swapErr := t.Swap(ctx, secretRow, catalog.HeaderFamily, secretColumn, nil, []table.Cell{cell})
	row, err := t.Get(ctx, secretRow, table.Select{})
	if err != nil {
		return nil, errors.Join(swapErr, err)
	}
	if c := row.Find(catalog.HeaderFamily, secretColumn); c != nil {
		return bytes.Clone(c.Value), nil
	}
	if errors.Is(swapErr, table.ErrUnavailable) {
		return fresh, nil
	}
	return nil, errors.Join(swapErr, errors.New("the store's secret could not be made"))
}
