// Package lsm is the embedded engine: the tables of package table in one folder, in a
// log-structured merge tree (Pebble). A [Store] is a table.Store, a table.Batcher
// (atomic commits that share fsyncs) and a table.Bulker (loads that are sorted and
// ingested in one step).
//
// # Layout
//
// Tables have numbers, kept in table 0 with their descriptions. A group is a family and
// those declared With it. Numbers are big-endian; in rows and qualifiers a zero byte is
// written 00 FF.
//
//	image   table:2 group:1 row 00 01                          ^revision:8 09
//	column  table:2 group:1 row 00 02 family:1 qualifier 00 01 ^revision:8 09
//
// The revision, inverted so that the newest comes first, is the suffix that Pebble
// splits off: bloom filters have one entry per row or column, and stepping to the next
// prefix skips versions. Keys of unversioned tables are column keys without it; their
// tombstones are Pebble's.
//
// An image is all that a row of a group holds after a revision:
//
//	flags:1 n, n other revisions:8 each, then for each family
//	family:1 length, then for each cell
//	qualifier length*2+tombstone, index of its revision, value length,
//	qualifier, value
//
// Lengths and indexes are varints; index 0 is the image's own revision. Every revision
// that changes a row writes its whole image, so a read is one seek, to the newest image
// that its view may see, after ten thousand versions as after one. A row whose cells
// exceed FamilySpec.ImageLimit becomes columnar and stays so. Its image is then a
// marker, flags:1 and cutoff, and its cells are column keys of their own, each under
// its own revision, with 01 and the value, or 00 for a tombstone. Adding a cell to such
// a row reads nothing of it. The cutoff is the revision that last deleted the row:
// columns below it are hidden.
//
// So logical deletes are never deletes of Pebble. They are an image without the cell, a
// column with 00, or a flag for a deleted row. An image keeps the tombstones of its own
// revision, so that an image alone shows what its revision did to the row. That is
// needed if a view hides revisions above its low-water mark (a branch, a commit in
// doubt). Then the row is assembled from what the visible revisions did, on top of the
// image at the mark.
//
// Collect deletes keys with Pebble's deletes, so that the space is released as Pebble
// compacts; Reclaim compacts the tables in which much was removed. Redact rewrites
// images without what must leave the past, and Purge replaces all files that may still
// contain it.
//
// # Reading
//
// Iterators are pooled: one that was opened when every revision up to r was written is
// right for every view up to r. A late revision, an Erase or a dropped table begins a
// new epoch, in which no older iterator is used. Scans read the families that they need
// side by side. If a filter needs a column, that is read first, and the rest of a row
// only if the filter matches.
//
// # Failures
//
// A full disk stops writes (table.ErrUnavailable) but not reads. The store then gives
// up a reserve, which urgent writes may use. What waits for the log is written when
// there is space, and writing resumes by itself. A store that cannot be opened for
// writing on a full disk is opened for reading. After any other failure to write the
// log, reads go on and writes are refused until the store is opened again. Everything
// that would make Pebble end the process becomes an error here, or blocks a goroutine
// for ever. See disk and space.
//
// The folder holds Pebble's files and four of ours: ldapd.store with the format
// version, ldapd.pid with the process that has it open, ldapd.reserve, and bulk-N/
// while loads run. The next Open removes what an interrupted load left.
//
// Options.FS makes everything above testable without a disk. Package lsmtest simulates
// a loss of power at every sync of a load, and a full disk at any time.
package lsm
