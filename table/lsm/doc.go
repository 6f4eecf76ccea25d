// Package lsm is the embedded engine: the tables of package table in one folder,
// in a log-structured merge tree (Pebble). A [Store] is a table.Store, a
// table.Batcher (atomic commits that share fsyncs) and a table.Bulker (loads
// that are sorted and ingested in one step).
//
// # Layout
//
// Tables have numbers, kept in table 0 with their descriptions. A group is a
// family and those declared With it. Numbers are big-endian; in rows and
// qualifiers a zero byte is written 00 FF.
//
//	image   table:2 group:1 row 00 01                          ^revision:8 09
//	column  table:2 group:1 row 00 02 family:1 qualifier 00 01 ^revision:8 09
//
// The revision, inverted so that the newest comes first, is the suffix that
// Pebble splits off: bloom filters have one entry a row or column, and stepping
// to the next prefix skips versions. Keys of unversioned tables are column keys
// without it; their tombstones are Pebble's.
//
// An image is all that a row of a group holds after a revision:
//
//	flags:1 n, n other revisions:8 each, then for each family
//	family:1 length, then for each cell
//	qualifier length*2+tombstone, index of its revision, value length,
//	qualifier, value
//
// Lengths and indexes are varints; index 0 is the image's own revision. Every
// revision that changes a row writes its image anew, so a read is one seek, to
// the newest image that its view may see, after ten thousand versions as after
// one. A row whose cells exceed FamilySpec.ImageLimit becomes columnar and stays
// so: its image is then a marker, flags:1 and cutoff, and its cells are column
// keys of their own, each under its own revision, with 01 and the value, or 00
// for a tombstone. Adding a cell to such a row reads nothing of it. Columns
// below the cutoff do not count: it is the revision that last deleted the row.
//
// Logical deletes are thus never deletes of Pebble: an image without the cell,
// a column with 00, a flag for a deleted row. An image keeps the tombstones of
// its own revision, so that what one revision did to a row can be told from
// two images. That is needed where a view hides revisions above its low-water
// mark (a branch, a commit in doubt): then the row is pieced together from what
// the visible ones did, on top of the image at the mark.
//
// What Collect removes it deletes as Pebble does, so that the space comes back as
// Pebble compacts; Reclaim asks for that where much was removed. Redact writes
// images anew without what is to be gone from the past, and Purge has all files
// replaced that may still have it.
//
// # Reading
//
// Iterators are pooled: one that was opened when every revision up to r was
// written is right for every view up to r. A revision that comes late, an Erase
// or a dropped table begins a new epoch, in which none of the older ones is
// used. Scans read the families that they need side by side; a filter that
// needs a column is read first, and the rest of a row only where it matches.
//
// # Failures
//
// A full disk stops writes (table.ErrUnavailable) and not reads. A reserve is given
// up then, which urgent writes may use; what waits for the log is written when there
// is space, and writing goes on by itself. A store that cannot be opened for writing
// on a full disk is opened for reading. After any other failure to write the log,
// reads go on and writes are refused until the store is opened again. Everything that
// Pebble would end the process for ends here as an error, or on a goroutine that is
// left waiting. See disk and space.
//
// The folder holds Pebble's files and four of ours: ldapd.store with the format
// version, ldapd.pid with the process that has it open, ldapd.reserve, and bulk-N/
// while loads run; what an interrupted load left is removed at the next Open.
//
// Options.FS makes everything above testable without a disk; package lsmtest
// takes the power away at every sync of a load, and fills the disk at any moment.
package lsm
