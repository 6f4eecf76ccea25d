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

// stateFile is the file in the store's folder that has the state.
const stateFile = "ldapd.archive"

// A state records where a store is archived, and how far.
type state struct {
	Store    string // id
	Writer   string // id of this folder
	Folder   uint64 // its inode number, which differs in a copy
	Place    string
	Epoch    Epoch        // zero: none yet
	Based    bool         // the epoch has a base
	Next     lsm.Position // end of what is archived
	Sending  lsm.Position // or this, if the result of the last Put is unknown
	Newest   table.Revision
	TakeOver bool // may take over from another folder
}

// readState reads the state from the folder of a store, or returns a new one.
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
