// Package seen answers "was this URL found before?" for more URLs than fit in memory. It
// holds a set of 64-bit fingerprints, each added once under the ascending ID of the row that
// the database has for its URL.
//
// # Its life
//
// A fingerprint that is added goes into the memtable, a hash table in memory. A full memtable
// is sealed and waits; once the database has committed all of its rows ([Index.Committed]) it
// is sorted and written as a run, a file that never changes. Four neighbouring runs of like
// size are merged into one, so a fingerprint is written again once for every fourfold growth
// of the set and few runs are left to be asked. That is a log-structured merge tree (O'Neil,
// Cheng, Gawlick, O'Neil 1996) with size-tiered merging, and without deletion.
//
// [Index.Has] asks the memtables and then each run. A run has a Bloom filter in memory, so
// that the runs without the fingerprint cost one cache line each, and the first fingerprint of
// each of its blocks, so that the one that has it costs one read of 4 KiB.
//
// # The invariant
//
// The index is derived: the database is the authority. Each run covers the rows after one ID
// up to and including another, and the runs follow each other without a gap from row zero to
// [Index.Mark]. No run covers a row that was not committed when it was written, or a URL
// would count as seen that the database never got, and would be lost. What is above the mark
// is in memory only: whoever opens the index adds those rows again, ascending, and then tells
// it what is committed. If the mark is above the last row of the database, as when a power cut
// has undone a commit, the index knows more than the authority: [Index.Reset] it first.
//
// # A kill at any instant
//
// The name of a run says which rows it covers, so the directory needs no list of contents. A
// run is written under a name ending in .tmp, synced, renamed, and the directory is synced
// before any run that it replaces is removed. So whatever a kill leaves is a chain of whole
// runs, and beside it at most an unfinished .tmp and runs whose rows a larger one covers as
// well; [Open] removes both.
//
// # Damage and faults
//
// Every byte of a run is under a checksum (CRC-32C): the header, the filter and the list of
// blocks are checked when it is opened, each block when it is read. A run that is damaged, is
// of another version, or was made with another fingerprint key is never believed: Open then
// drops all of them, and the mark is zero. Found later, the damage is [ErrDamaged] from Has
// until Reset. Either way the owner adds every row anew, which is one scan of the database.
//
// When a run cannot be written (a full disk), its fingerprints stay in memory, every answer
// stays right, and [Index.Err] says what failed. Writing is tried again whenever a memtable
// is sealed. When Config.Waiting memtables have gathered, Add tries once more and waits for
// it; if that fails too, or the rows are not even committed, it refuses with [ErrFull].
// Merging that fails leaves the runs as they are, and no more than 64 of them are made.
//
// # Memory and disk
//
// On disk a fingerprint takes 8·4096/4088 bytes in its block, 1/64 in the list of blocks and
// 1.5 in the filter: 9.53. In memory it takes 1.5 + 1/64 bytes, for n known URLs in all
//
//	RAM  = 1.52·n + 16·MemtableFPs·(1+Waiting) + 9 MB
//	disk = 9.53·n
//
// at most, when nothing is being written. With the defaults the second term is 8 MB in a
// crawl that writes as fast as it finds, and 40 MB at worst. A merge needs the filter and the
// disk space of its result beside that of its inputs; writing a memtable needs 8 bytes per
// fingerprint for the sorted copy.
//
// A filter of 12 bits per fingerprint that sets 8 of them says yes in vain for
// (1-e^(-8/12))^8 = 0.3 % of the fingerprints that are not in it (Bloom 1970). Ours keeps the
// eight bits in one cache line (Putze, Sanders, Singler 2007), which fill unevenly: 0.4 % was
// measured. Such a vain yes costs a read of a block and never a wrong answer. A wrong yes is
// what two URLs of one fingerprint get: with n URLs there is one at all with a chance of
// n²/2⁶⁵.
//
// # Who may call
//
// One goroutine, the owner, calls Has, Add, Reset and Close. Committed, Mark, Len, Bytes and
// Err may be called from anywhere. A goroutine of the index writes and merges; Close and Reset
// wait for it. Nothing here locks the directory: two processes on one are kept apart by the
// lock of the crawl's state.
package seen
