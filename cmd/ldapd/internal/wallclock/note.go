package wallclock

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// File is the name of the note in a store's folder.
const File = "ldapd.clock"

// A note records a moment at which the clock was trusted.
type note struct {
	Time time.Time     `json:"time"`
	Boot string        `json:"boot,omitempty"` // id of the system's boot
	Up   time.Duration `json:"up,omitempty"`   // nanoseconds since that boot
}

// readNote reads the note of a folder. If there is no note, or if it is damaged, readNote
// returns the time at which the newest file of the folder was written, as if the store had been
// in use until then. For a folder without files it returns the zero note.
func readNote(folder string) (n note, err error) {
	b, err := os.ReadFile(filepath.Join(folder, File))
	if err == nil && json.Unmarshal(b, &n) == nil && !n.Time.IsZero() {
		return n, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return note{}, fmt.Errorf("the note of the clock: %w", err)
	}
	files, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return note{}, nil
	}
	for _, f := range files {
		if i, err := f.Info(); err == nil && i.Mode().IsRegular() && i.ModTime().After(n.Time) {
			n = note{Time: i.ModTime()}
		}
	}
	return n, err
}

// write replaces the note of a folder.
func (n note) write(folder string) error {
	b, err := json.Marshal(n)
	if err != nil {
		return err
	}
	path := filepath.Join(folder, File)
	if err := os.WriteFile(path+".new", append(b, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
