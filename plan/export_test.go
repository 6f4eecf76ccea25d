package plan

// SetLongestValue sets the number of candidates up to which values are read, and
// returns a function that sets it back.
func SetLongestValue(n int) (restore func()) {
	was := longestValue
	longestValue = n
	return func() { longestValue = was }
}
