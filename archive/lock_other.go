//go:build !unix

package archive

// lockFile takes no lock: two servers with one archive are not told apart here.
func lockFile(string) (unlock func() error, err error) { return func() error { return nil }, nil }

// inode cannot tell a folder from a copy of it here.
func inode(string) uint64 { return 0 }
