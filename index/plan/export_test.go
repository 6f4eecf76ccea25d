package plan

// SetLongestValue sets longestValue and returns a function that restores the old value.
func SetLongestValue(n int) (restore func()) {
	was := longestValue
	longestValue = n
	return func() { longestValue = was }
}
