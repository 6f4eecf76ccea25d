package archive

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/seed-4dac0d86/ldapd/store/lsm"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// stateFile is the name of the file in the store's folder that contains the state.
const stateFile = "ldapd.archive"

// A state records where a store is archived, and up to which position.
type state struct {
	Store    string // id of the store
	Writer   string // id of this folder
	Folder   uint64 // inode number of this folder; a copy has another number
	Place    string
	Epoch    Epoch        // zero: the next base begins an epoch
	Based    bool         // the epoch has a base
	Next     lsm.Position // position up to which the log is archived
	Sending  lsm.Position // end of the last piece whose sending began, whether or not it arrived
	Newest   table.Revision
	TakeOver bool // this folder may take over the archive from another folder
	Promoted bool `json:",omitempty"` // the store was a standby's, and was or is being promoted
}

// readState reads the state from the folder of a store. If there is none, it returns a
// new state.
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
	return folder(path).Put(context.Background(), stateFile, bytes.NewReader(append(b, '\n')))
}
