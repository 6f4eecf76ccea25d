package archive

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"path"
	"strings"

	"github.com/seed-4dac0d86/ldapd/store/lsm"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

const (
	ownerName  = "owner"
	basePrefix = "base/"
	filePrefix = "file/"
	logPrefix  = "log/"
)

// An Epoch is the number of a period in a store's life in which the store's log has no gap.
type Epoch uint32

// A Base is a copy of the store at a position of its log. A restore begins with a base.
type Base struct {
	Object
	Epoch Epoch
	Next  lsm.Position // the position at which the log after the base begins
	hash  string
}

// A Piece is a part of the log between two positions.
type Piece struct {
	Object
	Epoch    Epoch
	From, To lsm.Position
	Newest   table.Revision // newest commit up to the end of the piece
	hash     string
}

func baseName(e Epoch, next lsm.Position, hash string) string {
	return fmt.Sprintf("%s%08x-%016x-%s.json", basePrefix, uint32(e), uint64(next), hash)
}

func pieceName(e Epoch, from, to lsm.Position, newest table.Revision, hash string) string {
	return fmt.Sprintf("%s%08x/%016x-%016x-%016x-%s", logPrefix, uint32(e), uint64(from), uint64(to), uint64(newest), hash)
}

// pieceFrom returns the prefix of the names of the pieces that begin at a position. If the
// position is zero, it returns the prefix of all pieces of the epoch.
func pieceFrom(e Epoch, from lsm.Position) string {
	if from == 0 {
		return fmt.Sprintf("%s%08x/", logPrefix, uint32(e))
	}
	return fmt.Sprintf("%s%08x/%016x-", logPrefix, uint32(e), uint64(from))
}

func fileName(sum string) string { return filePrefix + sum }

// parseBase parses the name of a base.
func parseBase(o Object) (b Base, err error) {
	b.Object = o
	text, ok := strings.CutSuffix(strings.TrimPrefix(o.Name, basePrefix), ".json")
	fields := strings.Split(text, "-")
	if !ok || len(fields) != 3 {
		return b, strange(o.Name)
	}
	b.hash = fields[2]
	_, err = fmt.Sscanf(fields[0]+" "+fields[1], "%x %x", (*uint32)(&b.Epoch), (*uint64)(&b.Next))
	if err != nil || baseName(b.Epoch, b.Next, b.hash) != o.Name {
		return b, strange(o.Name)
	}
	return b, nil
}

// parsePiece parses the name of a piece.
func parsePiece(o Object) (p Piece, err error) {
	p.Object = o
	dir, file := path.Split(strings.TrimPrefix(o.Name, logPrefix))
	fields := strings.Split(file, "-")
	if len(fields) != 4 {
		return p, strange(o.Name)
	}
	p.hash = fields[3]
	_, err = fmt.Sscanf(strings.Join(append([]string{strings.TrimSuffix(dir, "/")}, fields[:3]...), " "), "%x %x %x %x",
		(*uint32)(&p.Epoch), (*uint64)(&p.From), (*uint64)(&p.To), (*uint64)(&p.Newest))
	if err != nil || pieceName(p.Epoch, p.From, p.To, p.Newest, p.hash) != o.Name {
		return p, strange(o.Name)
	}
	return p, nil
}

func strange(name string) error {
	return fmt.Errorf("%w: %s is not a name that this version of ldapd writes", ErrDamaged, name)
}

// shortHash returns the first half of a hash, in the form in which object names contain it.
func shortHash(h hash.Hash) string { return hex.EncodeToString(h.Sum(nil)[:sha256.Size/2]) }

func shortSum(b []byte) string {
	h := sha256.New()
	h.Write(b)
	return shortHash(h)
}
