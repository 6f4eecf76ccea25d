package archive

import (
	"context"
	"errors"
	"io"
	"strings"
)

// A Place stores objects under names. Its methods may be called concurrently.
type Place interface {
	// List returns all objects whose names begin with prefix, sorted by name.
	List(ctx context.Context, prefix string) ([]Object, error)
	// Get opens an object. If the object is missing, Get returns fs.ErrNotExist.
	Get(ctx context.Context, name string) (io.ReadCloser, error)
	// Put writes the content of r as an object, atomically. If an object has that name
	// already, Put replaces it.
	Put(ctx context.Context, name string, r io.Reader) error
	// Read returns a small object and a tag of its content. If the object is missing,
	// data and tag are empty, and err is nil.
	Read(ctx context.Context, name string) (data []byte, tag string, err error)
	// Swap writes a small object if tag is still the tag of its content, and otherwise
	// returns ErrChanged. If [Place.Conditions] reports false, Swap may overwrite a
	// change that another writer makes at the same time.
	Swap(ctx context.Context, name, tag string, data []byte) error
	// Conditions tests whether Swap is atomic, and reports the result.
	Conditions(ctx context.Context) (bool, error)
	// Delete removes an object. It returns no error if the object is missing.
	Delete(ctx context.Context, name string) error
	// String returns the name of the place, for messages.
	String() string
}

// An Object is the name and size of an object in a listing.
type Object struct {
	Name string
	Size int64
}

// ErrChanged means that an object has changed since it was read.
var ErrChanged = errors.New("somebody else has changed it")

// OpenPlace returns the place that text names: a folder, or
// s3://ENDPOINT/BUCKET/PREFIX, or the same with s3+http:// (without TLS).
func OpenPlace(text string) (Place, error) {
	if strings.HasPrefix(text, "s3://") || strings.HasPrefix(text, "s3+http://") {
		return openS3(text)
	}
	if text == "" || strings.Contains(text, "://") {
		return nil, errors.New("an archive is a folder, or s3://ENDPOINT/BUCKET/PREFIX")
	}
	return folder(text), nil
}

// IsFolder reports whether a place is a folder on this machine.
func IsFolder(p Place) bool {
	_, ok := p.(folder)
	return ok
}
