package entry

import "slices"

func sortUnique(s *[]string) {
	slices.Sort(*s)
	*s = slices.Compact(*s)
}
