// Package words takes the word lists out of zxcvbn before zxcvbn makes its dictionaries of them, which every program that
// links it would otherwise do when it starts: 50 ms of CPU time and 10 MB of memory, although few commands and
// few servers ever judge a password. Go initializes packages in the order of their paths as soon as what they import is
// initialized, so this package, which imports nothing else, comes before zxcvbn's. In any other order the dictionaries would
// only be made at once.
package words

import "github.com/trustelem/zxcvbn/frequency"

// Lists are the words of each dictionary, the most frequent first.
var Lists = take()

func take() map[string][]string {
	lists := frequency.FrequencyLists
	frequency.FrequencyLists = nil
	return lists
}
