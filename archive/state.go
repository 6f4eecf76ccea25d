package archive

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/seed-4dac0d86/ldapd/table"
	"github.com/seed-4dac0d86/ldapd/table/lsm"
)

// stateFile is what a store's folder remembers of its archive.
const stateFile = "ldapd.archive"

// A state is how far a store is archived.
type state struct {
	Store    string // id
	Writer   string // id of this folder
	Folder   uint64 // its inode, by which a copy of it is known
	Place    string
	Epoch    Epoch        // zero: none yet
	Based    bool         // the epoch has a base
	Next     lsm.Position // what is archived ends here
	Sending  lsm.Position // or here, if it was not heard how sending ended
	Newest   table.Revision
	TakeOver bool // may go on where another folder was
}

// readState reads what the folder of a store remembers, or begins anew.
func readState(folder, place string) (*state, error) {
	st := &state{}
	b, err := os.ReadFile(filepath.Join(folder, stateFile))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		st.Store = rand.Text()
	case err != nil:
		return nil, err
	default:
		if err := json.Unmarshal(b, st); err != nil {
			return nil, fmt.Errorf("%w: %s: %w", table.ErrCorrupt, stateFile, err)
		}
	}
	if here := inode(folder); st.Writer == "" || st.Folder != here {
		st.Writer, st.Folder, st.Epoch = rand.Text(), here, 0
	}
	if st.Place != place {
		st.Place, st.Epoch = place, 0
	}
	return st, nil
}

// save writes the state durably.
func (st *state) save(path string) error {
	b, err := json.MarshalIndent(st, "", "  ")
	if err != nil {
		return err
	}
	tmp, err := os.CreateTemp(path, stateFile+".new-*")
	if err != nil {
		return err
	}
	_, err = tmp.Write(append(b, '\n'))
	err = errors.Join(err, tmp.Sync(), tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), filepath.Join(path, stateFile))
	}
	if err != nil {
		return errors.Join(err, ignoreMissing(os.Remove(tmp.Name())))
	}
	return syncFolder(path)
}
