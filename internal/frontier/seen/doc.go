// Package seen answers "was this URL found before?" for more URLs than fit in memory. An [Index] is a set of 64-bit
// fingerprints, each added once under the ascending ID of its row in the database; a [Set] is one in memory alone.
//
// A fingerprint goes into the memtable, a [Set]. A full memtable is sealed; once the database has committed all of its
// rows ([Index.Committed]) it is sorted and merged with the run, an immutable file with all that were written before,
// into a run that takes its place. The larger the run, the more a memtable holds, so that a fingerprint is written some
// nine times on the way to 30 million, and fifteen times from there to 10⁸. The run has a Bloom filter and the first
// fingerprint of each block in memory, so that a URL that is new costs one cache line, and a known one a read of 4 KiB.
//
// # The invariant
//
// The database is the authority. The run covers the rows up to [Index.Mark], all of them, and none that was not
// committed when it was written, or a URL would count as seen that the database lacks. Whoever opens the index adds the
// rows above the mark again, ascending, and tells what is committed. If the mark is above the last row, as when a power
// cut has undone a commit, Open drops the run.
//
// # Kills, damage and full disks
//
// A run is written under another name, synced, renamed, and the directory is synced before the run that it replaces is
// removed. [Open] removes what a kill leaves. Every byte is under a CRC-32C checksum, verified by Open and whenever it is
// read. A damaged run, or one of another version or key, is never used: Open drops it, and later Has returns
// [ErrDamaged], and Close drops it. A run that cannot be written ends the index, as the database beside it can hardly be
// written either; nothing is lost by it.
//
// # Memory and disk
//
// For n known URLs, of which a memtable holds m, MemtableFPs or n/8 up to 8 times that:
//
//	RAM  = 1.52·n + 21·m + 9 MB, and 21·m more from when one is full until it is written
//	disk = 8.02·n, and twice that while it is written
//
// A filter of 12 bits per fingerprint has 0.4 % false positives, which cost a read. Has is wrong only for two URLs of
// one fingerprint, a chance of n²/2⁶⁵ for any.
//
// One goroutine, the owner, calls Has, Add and Close; the rest may be called from anywhere. The lock of the crawl's
// state keeps a second process away.
package seen
