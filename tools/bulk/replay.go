package bulk

import "io"

// replay keeps all bytes that are read from a stream, and returns them again after
// rewind.
type replay struct {
	in   io.Reader
	kept []byte
	back bool
}

func (r *replay) rewind() { r.back = true }

func (r *replay) Read(p []byte) (int, error) {
	if r.back && len(r.kept) > 0 {
		n := copy(p, r.kept)
		r.kept = r.kept[n:]
		return n, nil
	}
	n, err := r.in.Read(p)
	if !r.back {
		r.kept = append(r.kept, p[:n]...)
	}
	return n, err
}
