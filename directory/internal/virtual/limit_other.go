//go:build !unix

package virtual

import "math"

// maxFiles returns a large number, because this operating system does not report a limit.
func maxFiles() int64 { return math.MaxInt32 }
