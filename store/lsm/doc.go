// Package lsm is the embedded engine. It stores the tables of package table in one
// folder, in a log-structured merge tree (Pebble). A [Store] is a table.Store, a
// table.Batcher (with atomic commits that share fsyncs) and a table.Bulker (with loads
// that are sorted and ingested in one step).
//
// # Layout
//
// Tables have numbers, which are stored with the descriptions of the tables in table 0. A
// group is a family together with all families whose FamilySpec.With names it. Numbers
// are big-endian. In rows and qualifiers a zero byte is written 00 FF.
//
//	image   table:2 group:1 row 00 01                          ^revision:8 09
//	column  table:2 group:1 row 00 02 family:1 qualifier 00 01 ^revision:8 09
//
// The revision is inverted, so that the newest version of a row or column sorts first.
// Pebble treats the revision as a suffix and the rest of the key as a prefix. So bloom
// filters have one entry per row or column, and an iterator that moves to the next prefix
// skips the older versions. The keys of unversioned tables are column keys without this
// suffix, and their tombstones are Pebble's tombstones.
//
// An image is the complete content of a row in one group after a revision:
//
//	flags:1 n, n other revisions:8 each, then for each family
//	family:1 length, then for each cell
//	qualifier length*2+tombstone, index of its revision, value length,
//	qualifier, value
//
// Lengths and indexes are varints. Index 0 is the image's own revision. Every revision that
// changes a row writes the whole image of the row. So a read is one seek to the newest image
// that its view may see. A row with ten thousand versions is read as fast as a row with one. A
// row whose cells exceed FamilySpec.ImageLimit becomes columnar and stays columnar. The image
// of a columnar row is a marker, which contains flags:1 and a cutoff. Each cell of a columnar
// row has a column key with its own revision. The value of a column key is 01 and the cell's
// value, or 00 for a tombstone. Adding a cell to a columnar row reads nothing of the row except
// its newest image. The cutoff is the revision that last deleted the row: columns below it are
// hidden.
//
// So in a versioned table, a logical delete is never a delete in Pebble. It is a tombstone in
// an image, a column with the value 00, or a flag for a deleted row. An image contains the
// tombstones of its own revision, so that the image alone shows what its revision did to the row.
// This is needed if a view hides revisions above its low-water mark, such as those of a
// branch or of an undecided commit. The row is then assembled from the changes of the
// visible revisions, on top of the image at the mark.
//
// If a commit does not see all revisions of a row, because some belong to a branch, it
// builds its image on the newest image that it sees. The trunk and each branch then have
// images of their own, and a reader whose view is a table.Causal takes the newest image
// that it sees. For a row that both the branch and the trunk changed, a merge writes an
// image that joins the two images; see lines.go.
//
// Collect deletes keys with Pebble's deletes, so that the space is released when Pebble
// compacts. Reclaim compacts the tables from which much was removed. Redact removes
// cells from the past: it rewrites the images that contain them. Purge replaces all files
// that may still contain these cells.
//
// # Reading
//
// Iterators are pooled. An iterator that was opened after every revision up to r had been
// written is correct for every view up to r. A late revision, an Erase or a dropped table
// begins a new epoch, in which iterators of earlier epochs are not used. A scan has one
// iterator for each group that it needs, and advances these iterators together. If a
// filter needs a column, the scan reads that column first, and reads the rest of a row
// only if the filter matches.
//
// # Failures
//
// A full disk stops writes (table.ErrUnavailable) but not reads. The store then removes a
// file that reserves space, and urgent writes may use this space. Writes of the log wait
// until there is space, and the store then accepts writes again by itself. A store that
// cannot be opened for writing on a full disk is opened for reading. After any other
// failure to write the log, reads continue and writes are refused until the store is
// opened again. A condition in which Pebble would end the process becomes an error in
// this package, or blocks a goroutine forever. See disk and space.
//
// The folder contains Pebble's files and files of this package: ldapd.store with the
// format version, ldapd.pid with the id of the process that has the store open,
// ldapd.reserve, ldapd.closed of a store that was closed in order (see ending), the folders bulk-N/ of running loads, the folders copy-N/ of copies, and
// the folder archive/ of kept logs. The next Open removes the folders that an interrupted
// load or copy left behind.
//
// With Options.FS the engine can be tested without a disk. Package lsmtest simulates a
// power loss at every sync of a load, and a full disk at any time.
package lsm
