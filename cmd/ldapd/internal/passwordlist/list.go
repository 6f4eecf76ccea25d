// Package passwordlist looks passwords up in a list of passwords that are known to others,
// such as leaked passwords. A list is a file with a filter of hashes: 19 bits for each
// password. A password of the list is always found. One in 65,536 of all other passwords is
// found as well.
package passwordlist

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/FastFilter/xorfilter"
)

// A file begins with the constant magic, the version, and the number of bits by which hashes
// are divided into parts. Then come the parts, and at the end the SHA-256 of everything before
// it.
const (
	magic   = "ldapd known passwords\n"
	version = 1
)

// A List is a filter of known passwords.
type List struct {
	bits   byte
	parts  []*xorfilter.BinaryFuse[uint16] // a part is nil if it is empty
	number int
}

// Contains reports whether a password is in the list.
func (l *List) Contains(password []byte) bool {
	k := key(password)
	p := l.parts[k>>(64-l.bits)]
	return p != nil && p.Contains(k)
}

// Len returns the number of passwords in the list.
func (l *List) Len() int { return l.number }

// Read reads a list. It checks the whole file before it uses any of it.
func Read(file string) (*List, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := check(f)
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	var l *List
	if err == nil {
		l, err = load(bufio.NewReaderSize(io.LimitReader(f, size), 1<<20))
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return l, nil
}

var errCut = errors.New("it is cut short or damaged: make it again with ldapd known-passwords")

// check compares the contents of a file with its checksum, and returns the number of
// octets before the checksum.
func check(f *os.File) (int64, error) {
	head := make([]byte, len(magic)+1)
	if _, err := io.ReadFull(f, head); err != nil || string(head[:len(magic)]) != magic {
		return 0, errors.New("it is no list of known passwords: make one with ldapd known-passwords")
	}
	if v := head[len(magic)]; v != version {
		return 0, fmt.Errorf("its format is %d, and this version reads %d: make it again with ldapd known-passwords", v, version)
	}
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	size := info.Size() - sha256.Size
	if size < int64(len(head)) {
		return 0, errCut
	}
	sum := sha256.New()
	sum.Write(head)
	if _, err := io.CopyN(sum, f, size-int64(len(head))); err != nil {
		return 0, err
	}
	var stored [sha256.Size]byte
	if _, err := io.ReadFull(f, stored[:]); err != nil || !bytes.Equal(stored[:], sum.Sum(nil)) {
		return 0, errCut
	}
	return size, nil
}

// load reads a file that check has accepted.
func load(r *bufio.Reader) (*List, error) {
	head := make([]byte, len(magic)+2)
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, err
	}
	l := &List{bits: head[len(magic)+1]}
	if l.bits > 16 {
		return nil, errCut
	}
	for range 1 << l.bits {
		var n uint64
		if err := binary.Read(r, binary.BigEndian, &n); err != nil {
			return nil, err
		}
		var p *xorfilter.BinaryFuse[uint16]
		if n > 0 {
			var err error
			if p, err = xorfilter.LoadBinaryFuse[uint16](r); err != nil {
				return nil, err
			}
		}
		l.parts, l.number = append(l.parts, p), l.number+int(n)
	}
	return l, nil
}
