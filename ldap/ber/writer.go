package ber

// Encoded lengths are minimal: Open reserves one octet for the length, and Close moves
// the contents if one octet is not enough. Moving 500 bytes costs some 10 ns. Encoding
// every length in five octets would cost the network more.

// Open begins a constructed element. Callers must pass to [Close] the length that b had
// before Open.
func Open(b []byte, t Tag) []byte { return append(b, byte(t), 0) }

// Close ends the element that began at b[start].
func Close(b []byte, start int) []byte {
	size := len(b) - start - 2
	if size < 0x80 {
		b[start+1] = byte(size)
		return b
	}
	n := octets(uint64(size))
	var room [8]byte
	b = append(b, room[:n]...)
	copy(b[start+2+n:], b[start+2:start+2+size])
	b[start+1] = 0x80 | byte(n)
	for i := n; i > 0; i-- {
		b[start+1+i] = byte(size)
		size >>= 8
	}
	return b
}

// AppendHeader appends the identifier and length of an element with contents of a known
// size.
func AppendHeader(b []byte, t Tag, size int) []byte {
	if size < 0x80 {
		return append(b, byte(t), byte(size))
	}
	n := octets(uint64(size))
	b = append(b, byte(t), 0x80|byte(n))
	for i := n - 1; i >= 0; i-- {
		b = append(b, byte(size>>(8*i)))
	}
	return b
}

// AppendString appends an element of octets.
func AppendString[S ~string | ~[]byte](b []byte, t Tag, s S) []byte {
	return append(AppendHeader(b, t, len(s)), s...)
}

// AppendInt appends an INTEGER or ENUMERATED.
func AppendInt(b []byte, t Tag, v int64) []byte {
	n := 1
	for x := v; x > 127 || x < -128; x >>= 8 {
		n++
	}
	b = append(b, byte(t), byte(n))
	for i := n - 1; i >= 0; i-- {
		b = append(b, byte(v>>(8*i)))
	}
	return b
}

// AppendBool appends a BOOLEAN; true is FF (RFC 4511, 5.1 (3)).
func AppendBool(b []byte, t Tag, v bool) []byte {
	if v {
		return append(b, byte(t), 1, 0xff)
	}
	return append(b, byte(t), 1, 0)
}

// octets returns the number of octets that an unsigned number needs.
func octets(v uint64) int {
	n := 1
	for v >>= 8; v != 0; v >>= 8 {
		n++
	}
	return n
}
