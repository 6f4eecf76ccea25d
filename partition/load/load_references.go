package load

import (
	"context"
	"strings"
	"sync"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/load/spill"
	"github.com/seed-4dac0d86/ldapd/partition/write"
)

// awaited contains the values that must name entries and do not name an entry yet. These
// entries may follow later in the load.
type awaited struct {
	mu  sync.Mutex
	all []awaitedName
}

type awaitedName struct {
	name  spill.Key
	from  string // name of the entry that has the value
	wrong error
}

// refer looks up the entries that the values of a new entry must name.
func (l *Loader) refer(ctx context.Context, x *Loading) error {
	c := l.catalog.Load()
	for i := range x.e.Attributes {
		a := &x.e.Attributes[i]
		ix := c.Indexes[a.Typ]
		if ix == nil || ix.Reference == nil || !ix.Reference.MustExist {
			continue
		}
		for k, key := range a.Keys {
			if err := l.referTo(ctx, x, ix, key, a.Value(k)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l *Loader) referTo(ctx context.Context, x *Loading, ix *catalog.Indexed, key, value []byte) error {
	key = ix.Typ.KeyOfName(key)
	if len(key) == 0 {
		return nil // the root's name, or a name with a unique identifier
	}
	name := hashOf(key)
	if id, ok, err := l.names.Get(name); ok && !isRefused(id) || err != nil {
		return err
	}
	if !l.empty {
		norms, err := dn.SplitKey(key)
		if err != nil {
			return err
		}
		if _, found, err := l.s.Path(ctx, norms); found || err != nil {
			return err
		}
	}
	l.awaited.mu.Lock()
	defer l.awaited.mu.Unlock()
	l.awaited.all = append(l.awaited.all, awaitedName{name, x.e.Name.String(), write.NamesNothing(ix, value)})
	return nil
}

// isRefused reports whether a value of Loader.names marks a refused entry.
func isRefused(id spill.Value) bool { return id == (spill.Value{}) }

// maxMissing is the largest number of reported values that name no entry.
const maxMissing = 10

// checkArrived returns an error if a value of the load must name an entry and still names
// none.
func (l *Loader) checkArrived() error {
	var named []string
	n := 0
	for _, a := range l.awaited.all {
		id, ok, err := l.names.Get(a.name)
		if err != nil {
			return err
		}
		if ok && !isRefused(id) {
			continue
		}
		if n++; n <= maxMissing {
			named = append(named, a.from+": "+a.wrong.Error())
		}
	}
	if n == 0 {
		return nil
	}
	return catalog.Errorf(catalog.Constraint, "%d values must name entries and do not:\n  %s", n, strings.Join(named, "\n  "))
}
