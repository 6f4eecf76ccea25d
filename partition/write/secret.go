package write

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"

	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

var (
	secretRow    = []byte("secret")
	secretColumn = []byte("secret")
)

const secretSize = 32

// Secret returns random bytes that are known only to the servers of the store. Keys that sign
// and verify are derived from the secret. The first call creates the secret. The secret is
// stored in the table that contains the header, in a row that no export contains. If the store
// contains no secret and refuses writes (for example, on a full disk), each call returns
// another secret, so each server uses a secret of its own until it restarts.
func Secret(ctx context.Context, p *catalog.Partition) ([]byte, error) {
	secret, err := storedSecret(ctx, p)
	if errors.Is(err, table.ErrUnavailable) {
		return freshSecret(), nil
	}
	return secret, err
}

func freshSecret() []byte {
	fresh := make([]byte, secretSize)
	rand.Read(fresh) // crypto/rand never fails
	return fresh
}

// storedSecret is Secret, but returns an error if the store contains no secret and refuses writes.
func storedSecret(ctx context.Context, p *catalog.Partition) ([]byte, error) {
	t := p.Store.Table(catalog.HeaderTable)
	cell := table.Cell{Family: catalog.HeaderFamily, Qualifier: secretColumn, Value: freshSecret()}
	// The stored value is the secret, whatever Swap returns.
	_, swapErr := t.Swap(ctx, secretRow, catalog.HeaderFamily, secretColumn, nil, []table.Cell{cell})
	row, err := t.Get(ctx, secretRow, table.Select{})
	if s, ok := t.(table.Resealer); ok && err == nil {
		// A server without the key of the others finds out here, before it writes something that they cannot read.
		err = s.ResealCell(ctx, secretRow, catalog.HeaderFamily, secretColumn)
	}
	if err != nil {
		return nil, errors.Join(swapErr, err)
	}
	if c := row.Find(catalog.HeaderFamily, secretColumn); c != nil {
		return bytes.Clone(c.Value), nil
	}
	return nil, errors.Join(swapErr, errors.New("the store's secret could not be made"))
}
