//go:build !unix

package virtual

import "math"

// maxFiles returns a large number, because this system has no limit that could be read.
func maxFiles() int64 { return math.MaxInt32 }
