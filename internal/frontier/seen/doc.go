// Package seen answers "was this URL found before?" for more URLs than fit in memory. An [Index] is a set of 64-bit
// fingerprints on disk; each fingerprint is added once, under the ID of its row in the database, in ascending order of
// IDs. A [Set] is a set in memory alone.
//
// A new fingerprint goes into the memtable, a [Set]. A full memtable is sealed. When the database has committed all its
// rows ([Index.Committed]), it is sorted and merged with the run, an immutable file with all fingerprints written
// before, into a new run that replaces the old one. The larger the run, the more a memtable holds, so that a
// fingerprint is written some nine times while the set grows to 30 million, and fifteen times from there to 10⁸. A
// Bloom filter of the run and the first fingerprint of each of its blocks are in memory, so that looking up a new URL
// costs one cache line, and a known one a read of 4 KiB.
//
// # The invariant
//
// The database is the authority. The run covers all rows up to [Index.Mark], and no row that was not committed when the
// run was written; otherwise a URL would count as seen that the database lacks. Whoever opens the index adds the rows
// above the mark again, in ascending order, and calls Committed with what is committed. If the mark is above the last
// row of the database, as when a power cut has undone a commit, Open drops the run.
//
// # Kills, damage and full disks
//
// A run is written under another name, synced and renamed, and the directory is synced before the old run is removed.
// [Open] removes the files that a killed process has left. Every byte is covered by a CRC-32C checksum, which Open and
// every read verify. A damaged run, or one of another version or key, is never used: Open drops it; if the damage shows
// later, Has returns [ErrDamaged] and Close drops the run. If a run cannot be written, the index stops working, since
// the database beside it can hardly be written either; nothing is lost by that.
//
// # Memory and disk
//
// For n known URLs, of which a memtable holds m, with m between MemtableFPs and n/8 but at most 8 times MemtableFPs:
//
//	RAM  = 1.52·n + 21·m + 9 MB, and 21·m more from when a memtable is full until it is written
//	disk = 8.02·n, and twice that while a run is written
//
// While a run is written, RAM also holds its filter and first fingerprints, 1.52·n more, and the sealed fingerprints in
// order, 8·m. The memtable that fills meanwhile is sealed only after that write: until then only the speed of the crawl
// bounds it.
//
// A filter of 12 bits per fingerprint has 0.4 % false positives, which cost a read. Has is wrong only if two URLs have
// the same fingerprint; for n URLs the probability that any two do is n²/2⁶⁵.
//
// One goroutine, the owner, calls Has, Add and Close; the other methods are safe for concurrent use. The lock of the
// crawl's state keeps other processes away.
package seen
