package archive

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	"filippo.io/age"
)

// A Seal encrypts objects for its recipients (age, X25519), so that the writer of an
// archive cannot read what it has written. The zero Seal does not encrypt.
type Seal struct{ to []age.Recipient }

// ParseSeal parses recipients, each of which begins with "age1".
func ParseSeal(recipients []string) (Seal, error) {
	var s Seal
	for _, text := range recipients {
		r, err := age.ParseX25519Recipient(text)
		if err != nil {
			return Seal{}, fmt.Errorf("%q is not a recipient such as 'age-keygen' prints: %w", text, err)
		}
		s.to = append(s.to, r)
	}
	return s, nil
}

// Seals reports whether the Seal has recipients. Without recipients, it does not encrypt.
func (s Seal) Seals() bool { return len(s.to) > 0 }

// writer returns a writer that encrypts to w. Closing the writer does not close w.
func (s Seal) writer(w io.Writer) (io.WriteCloser, error) {
	if !s.Seals() {
		return unsealed{w}, nil
	}
	return age.Encrypt(w, s.to...)
}

// reader returns a reader of the encrypted content of r.
func (s Seal) reader(r io.Reader) (io.Reader, error) {
	if !s.Seals() {
		return r, nil
	}
	return age.EncryptReader(r, s.to...)
}

type unsealed struct{ io.Writer }

// Close implements io.Closer.
func (unsealed) Close() error { return nil }

// Keys are identities that decrypt sealed objects.
type Keys []age.Identity

// ReadKeys reads a file of identities AGE-SECRET-KEY-1..., one in each line. It skips empty
// lines and comments (#).
func ReadKeys(name string, r io.Reader) (Keys, error) {
	keys, err := age.ParseIdentities(r)
	if err != nil {
		return nil, fmt.Errorf("%s is not a file of identities: %w", name, err)
	}
	return keys, nil
}

// sealMark is the beginning of every sealed object.
const sealMark = "age-encryption.org/v1\n"

// open returns a reader of the content of an object, which may be sealed.
func (k Keys) open(r io.Reader) (io.Reader, error) {
	b := bufio.NewReader(r)
	if start, _ := b.Peek(len(sealMark)); string(start) != sealMark {
		return b, nil
	}
	if len(k) == 0 {
		return nil, fmt.Errorf("%w: %w", ErrSealed, ErrNoIdentity)
	}
	in, err := age.Decrypt(b, k...)
	var none *age.NoIdentityMatchError
	if errors.As(err, &none) {
		return nil, fmt.Errorf("%w to others than this identity", ErrSealed)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return damaged{in}, nil
}

// damaged is a reader that returns ErrDamaged if the content cannot be decrypted.
type damaged struct{ io.Reader }

// Read implements io.Reader.
func (d damaged) Read(p []byte) (int, error) {
	n, err := d.Reader.Read(p)
	if err != nil && err != io.EOF {
		err = fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return n, err
}

// String returns the recipients, separated by spaces.
func (s Seal) String() string {
	var all []string
	for _, r := range s.to {
		all = append(all, fmt.Sprint(r))
	}
	return strings.Join(all, " ")
}
