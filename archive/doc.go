// Package archive keeps an embedded store a second time, at a place outside its folder, so
// that a directory outlives its machine and can be put back to any moment that the archive
// still has.
//
// # Objects
//
//	owner                            which store writes here, in which epoch, and who
//	base/EPOCH-POSITION-HASH.json    a list of files: a store at a position of its log
//	file/SHA256                      a file of one base or of many, by the hash of its content
//	log/EPOCH/FROM-TO-NEWEST-HASH    a piece: the log from a position to another one
//
// Numbers have 16 hexadecimal digits, those of epochs 8. NEWEST is the revision of the
// newest commit up to the end of a piece. HASH is the first half of the SHA-256 of the
// object, so that a listing and the objects show what is missing or damaged without a key.
// Files and pieces may be sealed (see [Seal]); bases name no data and are not.
//
// A base appears once all its files are there. An epoch is a part of the store's life whose
// log has no gap, written by one [Archiver]: it begins with a base. A restore takes a base
// and the pieces behind it in the same epoch. Nothing is sent that the store could still
// lose in a crash, so a copy never has what the original has not.
//
// An object is never changed, except owner, and only by who knows what it was (see
// [Place.Swap]).
package archive

import (
	"errors"
	"fmt"

	"github.com/seed-4dac0d86/ldapd/table"
)

var (
	// ErrForeign: the archive is that of another store.
	ErrForeign = errors.New("the archive belongs to another store")
	// ErrTakenOver: another folder has gone on with this store's archive.
	ErrTakenOver = errors.New("the archive was taken over")
	// ErrDamaged: objects are missing or are not what was put there.
	ErrDamaged = fmt.Errorf("the archive is damaged: %w", table.ErrCorrupt)
	// ErrNoState: the archive has no state to restore.
	ErrNoState = errors.New("the archive has no such state")
	// ErrSealed: what is there cannot be read without an identity, or with that one.
	ErrSealed = errors.New("the archive is sealed")
)

// format is that of bases and pieces.
const format = 1
