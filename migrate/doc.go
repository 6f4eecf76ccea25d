// Package migrate copies a directory from another server, follows the changes that are
// made there, compares the two, and takes the other server's place.
//
// [Look] connects to the other server and finds out what it is and what it offers. A
// [Move] copies into a partition. It begins with a load (package bulk). Afterwards it
// receives entries as they are now, and makes the entries of the directory equal to them,
// in ordinary transactions that keep ids, times and names. So an entry that is received
// twice does no harm, and a copy that was interrupted goes on anywhere.
//
// The changes come by content synchronization (RFC 4533) from servers that offer it. From
// other servers everything is read again and again, page by page.
//
// A setting (package follow) says that a directory follows a server. While it is set,
// servers refer updates to the followed server. The cursor beside it has the cookies of the synchronization. It is written in the same commits as the
// changes, and names the process that follows, so that only one does.
package migrate
