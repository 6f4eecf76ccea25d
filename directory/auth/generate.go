package auth

import (
	"crypto/rand"
	"math/big"
	"strings"
)

// generatedLength is the length of a generated password. A generated password has almost 153
// bits of entropy. The characters below do not include characters that look alike.
const generatedLength = 26

var characters = []string{"ABCDEFGHJKLMNPQRSTUVWXYZ", "abcdefghijkmnopqrstuvwxyz", "23456789", "-+=_.,:"}

// Generate returns a password that meets the usual requirements: at least three
// characters of each class, no two equal characters in a row, and no sequences.
func Generate() []byte {
	all := strings.Join(characters, "")
	for {
		p := make([]byte, generatedLength)
		for i := range p {
			p[i] = all[draw(len(all))]
		}
		if isVaried(p) {
			return p
		}
	}
}

func draw(n int) int {
	i, err := rand.Int(rand.Reader, big.NewInt(int64(n)))
	if err != nil {
		panic(err) // crypto/rand never fails
	}
	return int(i.Int64())
}

func isVaried(p []byte) bool {
	for i := 1; i < len(p); i++ {
		if d := int(p[i]) - int(p[i-1]); d >= -1 && d <= 1 {
			return false
		}
	}
	for _, class := range characters {
		n := 0
		for _, c := range p {
			if strings.IndexByte(class, c) >= 0 {
				n++
			}
		}
		if n < 3 {
			return false
		}
	}
	return true
}
