// Package migrate copies a directory from another server, follows the changes that are
// made there, and compares the copy with the other server. At the end it lets the copy
// take the other server's place.
//
// [Look] connects to the other server and finds out what it is and what it offers. A
// [Move] copies into a partition. It begins with a load (package bulk). Afterwards it
// receives entries in their current form, and makes the directory's entries equal to
// them, in ordinary transactions that keep ids, times and names. So an entry may be
// received twice, and an interrupted copy can continue at any entry.
//
// The changes come by content synchronization (RFC 4533) from servers that offer it. From
// other servers, all entries are read again and again, page by page.
//
// A setting (catalog.Following) says that a directory follows a server. While the setting exists,
// servers refer updates to the followed server. The cursor, which is stored with the setting,
// has the cookies of the synchronization. The cursor is written in the same commits as the
// changes. The cursor also names the process that follows, so that only one process follows.
package migrate
