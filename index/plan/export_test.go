package plan

// SetLongestValue sets longestValue and returns a function that restores the old value.
func SetLongestValue(n int) (restore func()) { return set(&longestValue, n) }

// SetFirstHead sets firstHead and returns a function that restores the old value.
func SetFirstHead(n int) (restore func()) { return set(&firstHead, n) }

func set(v *int, n int) (restore func()) {
	was := *v
	*v = n
	return func() { *v = was }
}
