// Package archive keeps a second copy of an embedded store outside its folder, so that a
// directory survives the loss of its machine and can be restored to any moment that the
// archive covers.
//
// # Objects
//
//	owner                            the store and folder that write here, and the epoch
//	base/EPOCH-POSITION-HASH.json    a manifest: the files of a store at a position of its log
//	file/SHA256                      a file of one or more bases, named by the hash of its content
//	log/EPOCH/FROM-TO-NEWEST-HASH    a piece: the log from one position to another
//
// Numbers have 16 hexadecimal digits, epochs 8. NEWEST is the revision of the newest commit
// up to the end of the piece. HASH is the first half of the SHA-256 of the object, so that
// missing and damaged objects can be found without a key. Files and pieces may be sealed
// (see [Seal]). Bases are not: they have only names, sizes and hashes.
//
// A base appears when all its files are there. An epoch is a part of the store's life whose
// log has no gap, archived from one folder. It begins with a base. A restore takes a base and
// the pieces after it in the same epoch. Nothing is sent that the store could still lose in a
// crash, so a copy never has anything that the original lost.
//
// Objects never change, except owner. A writer replaces owner only if it still has the
// content that the writer read (see [Place.Swap]).
package archive

import (
	"errors"
	"fmt"

	"github.com/seed-4dac0d86/ldapd/table"
)

var (
	// ErrForeign: the archive belongs to another store.
	ErrForeign = errors.New("the archive belongs to another store")
	// ErrTakenOver: another folder has continued this store's archive.
	ErrTakenOver = errors.New("the archive was taken over")
	// ErrDamaged: objects are missing or differ from what was written.
	ErrDamaged = fmt.Errorf("the archive is damaged: %w", table.ErrCorrupt)
	// ErrNoState: the archive has no state to restore.
	ErrNoState = errors.New("the archive has no such state")
	// ErrSealed: an object cannot be read without an identity, or with the one used.
	ErrSealed = errors.New("the archive is sealed")
)

// format is the version of owners, bases and pieces.
const format = 1
