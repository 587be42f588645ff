// Package seen answers "was this URL found before?" for more URLs than fit in memory. An [Index] is a set of 64-bit
// fingerprints, each added once under the ascending ID of the row that the database has for its URL; a [Set] is one
// in memory alone.
//
// A fingerprint goes into the memtable, a [Set]. A full memtable is sealed and waits; once the database has committed
// all of its rows ([Index.Committed]) it is sorted and written as a run, a file that never changes. Four neighbouring
// runs of like size are merged into one. That is a log-structured merge tree (O'Neil, Cheng, Gawlick, O'Neil 1996)
// with size-tiered merging and without deletion: on the way to 10⁸ fingerprints each is written 3.6 times, and at
// most 11 runs are to be asked. A run has a Bloom filter in memory, so that the runs without the fingerprint cost one
// cache line each, and the first fingerprint of each block, so that the run that has it costs one read of 4 KiB.
//
// # The invariant
//
// The index is derived: the database is the authority. Each run covers the rows after one ID up to and including
// another, and the runs follow each other without a gap from row zero to [Index.Mark]. No run covers a row that was
// not committed when it was written, or a URL would count as seen that the database never got. What is above the mark
// is in memory only: whoever opens the index adds those rows again, ascending, and then tells it what is committed.
// If the mark is above the last row of the database, as when a power cut has undone a commit, call [Index.Reset]
// first.
//
// # Kills, damage and full disks
//
// The name of a run says which rows it covers. A run is written under a name ending in .tmp, synced, renamed, and the
// directory is synced before any run that it replaces is removed. So a kill leaves a chain of whole runs, and at most
// an unfinished .tmp and runs whose rows a larger one covers as well; [Open] removes both. Every byte is under a
// checksum (CRC-32C), which is verified when it is read. A run that is damaged, of another version or of another
// fingerprint key is never believed: Open drops all runs then, and later Has returns [ErrDamaged] until Reset. When a
// run cannot be written its fingerprints stay in memory, every answer stays right, and [Index.Err] says what failed.
// It is tried again whenever a memtable is sealed; [ErrFull] bounds the memory.
//
// # Memory and disk
//
// For n known URLs, when nothing is being written:
//
//	RAM  = 1.52·n + 16·MemtableFPs·(1+Waiting) + 9 MB
//	disk = 9.53·n
//
// A merge needs the filter and the disk space of its result beside that of its inputs. A filter of 12 bits per
// fingerprint says yes in vain for 0.4 %: a vain yes costs a read, never a wrong answer. A wrong yes needs two URLs
// of one fingerprint: there is one at all with a chance of n²/2⁶⁵.
//
// One goroutine, the owner, calls Has, Add, Reset and Close; the rest may be called from anywhere. Two processes on
// one directory are kept apart by the lock of the crawl's state.
package seen
