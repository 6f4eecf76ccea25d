package passwordlist

import (
	"log/slog"

	"github.com/seed-4dac0d86/ldapd/directory/auth/reread"
)

// A File is a list that is read again when its file changes.
type File struct {
	list *reread.File[*List]
	log  *slog.Logger
}

// Open reads a list.
func Open(path string, log *slog.Logger) (*File, error) {
	list, err := reread.Open(path, func(path string) (*List, error) {
		l, err := Read(path)
		if err == nil {
			log.Info("known passwords in force", "file", path, "passwords", l.Len())
		}
		return l, err
	})
	return &File{list, log}, err
}

// Contains reports whether a password is in the list.
func (f *File) Contains(password []byte) bool {
	l, err := f.list.Current()
	if err != nil {
		f.log.Error("the list of known passwords cannot be read, the one before stays in force", "error", err)
	}
	return l.Contains(password)
}
