// Package archive keeps a second copy of an embedded store outside the store's folder. A
// directory therefore survives the loss of its machine, and can be restored to any moment
// that the archive covers.
//
// # Objects
//
//	owner                            the store and folder that write here, and the epoch
//	base/EPOCH-POSITION-HASH.json    a manifest: the files of a store at a position of its log
//	file/SHA256                      a file of one or more bases, named by the hash of its content
//	log/EPOCH/FROM-TO-NEWEST-HASH    a piece: the log from one position to another
//
// Positions and revisions are written with 16 hexadecimal digits, epochs with 8. NEWEST
// is the revision of the newest commit up to the end of the piece. HASH is the first
// half of the SHA-256 of the object. It allows Verify to find missing and damaged
// objects without a key. Files and pieces may be sealed (see [Seal]). Manifests are not
// sealed: they contain only names, sizes and hashes.
//
// A manifest is written after all files of its base. An epoch is a period in the store's
// life in which its log has no gap and is archived from one folder. An epoch begins with a
// base. A restore reads a base and the pieces that follow the base in the same epoch. The
// archiver sends only what the store can no longer lose in a crash, so a restored store
// contains nothing that the original store has lost.
//
// Only the object owner ever changes. A writer replaces owner only if its content is
// still what the writer read (see [Place.Swap]).
package archive

import (
	"errors"
	"fmt"

	"github.com/seed-4dac0d86/ldapd/store/table"
)

var (
	// ErrForeign means that the archive belongs to another store.
	ErrForeign = errors.New("the archive belongs to another store")
	// ErrTakenOver means that another folder has continued this store's archive.
	ErrTakenOver = errors.New("the archive was taken over")
	// ErrDamaged means that objects are missing or differ from what was written.
	ErrDamaged = fmt.Errorf("the archive is damaged: %w", table.ErrCorrupt)
	// ErrNoState means that the archive contains no state that can be restored, or not
	// the requested state.
	ErrNoState = errors.New("the archive has no such state")
	// ErrNotOwner means that a store continues an archive that was taken over only if it takes the
	// archive over itself. The error is also an ErrTakenOver.
	ErrNotOwner = errors.New("this one continues only if it takes the archive over")
	// ErrNoIdentity means that no identity was given.
	ErrNoIdentity = errors.New("name the file with the identity")
	// ErrSealed means that an object cannot be read with the given identities.
	ErrSealed = errors.New("the archive is sealed")
)

// format is the format version of owners, bases, pieces and the marks of standbys.
const format = 1
