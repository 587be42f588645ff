// Package seen answers "was this URL found before?" for more URLs than fit in memory. An [Index] is a set of 64-bit
// fingerprints, each added once under the ascending ID of its row in the database; a [Set] is one in memory alone.
//
// A fingerprint goes into the memtable, a [Set]. A full memtable is sealed; once the database has committed all of its
// rows ([Index.Committed]) it is sorted and written as a run, an immutable file. Four neighbouring runs of like size
// are merged into one: a log-structured merge tree (O'Neil, Cheng, Gawlick, O'Neil 1996) with size-tiered merging,
// without deletion. On the way to 10⁸ fingerprints each is written 3.6 times into at most 11 runs. A run has a Bloom
// filter and the first fingerprint of each block in memory, so that runs without the fingerprint cost one cache line
// each, and the one with it a read of 4 KiB.
//
// # The invariant
//
// The database is the authority. Each run covers the rows after one ID up to another, without a gap from row zero to
// [Index.Mark]. No run covers a row that was not committed when it was written, or a URL would count as seen that the
// database lacks. Whoever opens the index adds the rows above the mark again, ascending, and tells what is committed.
// If the mark is above the last row, as when a power cut has undone a commit, Open drops all runs.
//
// # Kills, damage and full disks
//
// The name of a run says which rows it covers. A run is written under a name ending in .tmp, synced, renamed, and the
// directory is synced before any run that it replaces is removed. [Open] removes what a kill leaves: a .tmp and runs
// that a larger one covers. Every byte is under a CRC-32C checksum, verified when read. A damaged run, or one of
// another version or key, is never used: Open drops all runs then, and later Has returns [ErrDamaged], and Close drops
// them. A run that cannot be written ends the index, as the database beside it can hardly be written either; nothing is
// lost by it.
//
// # Memory and disk
//
// For n known URLs, when nothing is being written:
//
//	RAM  = 1.52·n + 16·MemtableFPs·(1+Waiting) + 9 MB, and 16 bytes for each that is not committed
//	disk = 9.53·n
//
// A merge needs the filter and the disk space of its result too. A filter of 12 bits per fingerprint has 0.4 % false
// positives, which cost a read. Has is wrong only for two URLs of one fingerprint, a chance of n²/2⁶⁵ for any.
//
// One goroutine, the owner, calls Has, Add and Close; the rest may be called from anywhere. The lock of the crawl's
// state keeps a second process away.
package seen
