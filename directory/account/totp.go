package account

import (
	"crypto/subtle"
	"encoding/base32"
	"fmt"
	"time"

	"github.com/pquerna/otp"
	"github.com/pquerna/otp/hotp"
)

// A Generator generates time-based one-time codes (RFC 6238).
type Generator struct {
	Secret    []byte
	Digits    int
	Period    time.Duration
	Algorithm string // "SHA1", "SHA256" or "SHA512"
}

var algorithms = map[string]otp.Algorithm{"SHA1": otp.AlgorithmSHA1, "SHA256": otp.AlgorithmSHA256, "SHA512": otp.AlgorithmSHA512}

// Check returns an error if t cannot generate codes.
func (t *Generator) Check() error {
	_, known := algorithms[t.Algorithm]
	switch {
	case len(t.Secret) == 0:
		return fmt.Errorf("the token has no oathSecret")
	case t.Digits < 6 || t.Digits > 10:
		return fmt.Errorf("codes of %d digits are none of 6 to 10", t.Digits)
	case t.Period < time.Second:
		return fmt.Errorf("steps of %s are too short", t.Period)
	case !known:
		return fmt.Errorf("oathHMACAlgorithm is none of SHA1, SHA256, SHA512")
	}
	return nil
}

// Code returns the code of a time step.
func (t *Generator) Code(step int64) (string, error) {
	secret := base32.StdEncoding.EncodeToString(t.Secret)
	return hotp.GenerateCodeCustom(secret, uint64(step), hotp.ValidateOpts{Digits: otp.Digits(t.Digits), Algorithm: algorithms[t.Algorithm]})
}

// Step returns the time step of a code: the current step, the step before it or the step after
// it. A code fits only if its step is later than the step of the last code that was used,
// which is the parameter used. Step always computes all three codes, even if an earlier one fits.
func (t *Generator) Step(code string, now time.Time, used int64) (step int64, fits bool) {
	at := now.Unix() / int64(t.Period/time.Second)
	for s := at - 1; s <= at+1; s++ {
		want, err := t.Code(s)
		if err == nil && subtle.ConstantTimeCompare([]byte(want), []byte(code)) == 1 && s > used && !fits {
			step, fits = s, true
		}
	}
	return step, fits
}

// DecodeSecret decodes a secret in base32, the form in which applications display
// secrets.
func DecodeSecret(text string) ([]byte, error) {
	return base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(text)
}
