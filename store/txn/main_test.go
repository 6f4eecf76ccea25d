package txn

import (
	"flag"
	"os"
	"testing"
)

// TestMain makes many tests run at the same time, because the tests in real time mostly wait
// for leases.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "24"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}
