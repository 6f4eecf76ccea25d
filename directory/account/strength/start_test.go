package strength

import "testing"

// atStart is the number of dictionaries when the package was initialized.
var atStart = len(dictionaries.ranks)

func TestNoDictionaryAtStart(t *testing.T) {
	if atStart != 0 {
		t.Errorf("a program starts with %d dictionaries, although no password has to be judged", atStart)
	}
}
