//go:build !unix

package virtual

import "math"

// maxFiles returns how many files and connections the process may have open.
func maxFiles() int64 { return math.MaxInt32 }
