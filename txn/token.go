package txn

import "math/rand/v2"

// newToken tells apart writers and attempts that write the same otherwise.
func newToken() uint64 { return rand.Uint64() }
