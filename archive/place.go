package archive

import (
	"context"
	"errors"
	"io"
	"strings"
)

// A Place keeps objects under names. Its methods may be called concurrently.
type Place interface {
	// List returns all objects whose names begin with a prefix, by name.
	List(ctx context.Context, prefix string) ([]Object, error)
	// Get opens an object; a missing one is fs.ErrNotExist.
	Get(ctx context.Context, name string) (io.ReadCloser, error)
	// Put makes an object of what r has, or replaces one. It is there whole or not at all.
	Put(ctx context.Context, name string, r io.Reader) error
	// Read returns a small object and a tag of its content; both are empty if it is missing.
	Read(ctx context.Context, name string) (data []byte, tag string, err error)
	// Swap writes a small object if it still has the tag; otherwise it returns ErrChanged.
	// A place for which [Place.Conditions] is false can only try.
	Swap(ctx context.Context, name, tag string, data []byte) error
	// Conditions reports whether Swap is atomic. It tries that.
	Conditions(ctx context.Context) (bool, error)
	// Delete removes an object; a missing one is no error.
	Delete(ctx context.Context, name string) error
	// String names the place for messages.
	String() string
}

// An Object is what a listing shows.
type Object struct {
	Name string
	Size int64
}

// ErrChanged: an object is not what it was.
var ErrChanged = errors.New("somebody else has changed it")

// OpenPlace returns the place that a text names: a folder, or s3://ENDPOINT/BUCKET/PREFIX.
func OpenPlace(text string) (Place, error) {
	if strings.HasPrefix(text, "s3://") || strings.HasPrefix(text, "s3+http://") {
		return openS3(text)
	}
	if text == "" || strings.Contains(text, "://") {
		return nil, errors.New("an archive is a folder, or s3://ENDPOINT/BUCKET/PREFIX")
	}
	return folder(text), nil
}

// IsFolder reports whether a place is a folder of this machine.
func IsFolder(p Place) bool {
	_, ok := p.(folder)
	return ok
}
