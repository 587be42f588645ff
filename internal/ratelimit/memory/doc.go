// Package memory keeps what crawls learn of hosts in a file or a database, from one crawl to the
// next. [At] chooses which of the two; a crawl's own state has the same table ([Table]).
//
// # The file
//
// It is JSON, one object per line. The first names the format and its version; each
// further one is a [ratelimit.HostMemory], the latest used host first:
//
//	{"format":"treadlight-hosts","version":1}
//	{"host":"example.com","used":"2026-01-02T03:04:05Z","rate":4.85,"pause_ns":1500000000}
//
// Fields that are not known are passed over, so that a field can be added without a
// new version. A missing or empty file is a fresh start. Another format or version is
// an error, on reading and on writing, so that a mistyped name costs nobody a file. A
// damaged line costs only its host and is told.
//
// # Its life
//
// [File.Load] reads it when a crawl begins, and [File.Save] writes it every minute and
// at the end. Save writes a temporary file beside it, syncs it and renames it over the
// old one, so that at every instant, a crash included, there is a whole file: the old or
// the new. What a kill in the middle may leave is the temporary file, NAME.*.tmp.
//
// # Two crawls with one file
//
// Save reads the file again and merges: of two entries for a host the newer one counts,
// and the later of their Retry-After. So neither crawl loses what the other has learned.
// Reading and renaming are one step under an advisory lock (flock) on the directory: it
// leaves no lock file behind, it ends with the process that held it, and unlike a lock
// on the file itself it outlasts the rename. Where there is no such lock, as on some
// network file systems, or another program holds it for more than five seconds, Save goes
// on without: what two writers in the same millisecond can lose is one host's minute,
// and the next Save of the loser brings it back.
//
// # The database
//
// It is an SQLite database with one table, rates (see [TableSchema]), to be looked into with any
// shell while crawls run. A [Database] is open only while it is read or saved, and a save is a
// transaction of the hosts that this crawl has met: a kill leaves the one before, and writers wait
// for each other. A row that no limiter has written costs its host; a database that is damaged as a
// whole, or is another program's, is an error, and is left as it is. Times lose what is less than a
// millisecond, orders to wait upward.
//
// # Bounds and privacy
//
// Either has Config.MaxHosts entries at most, those used last; an entry drops out
// when nothing of it is left after a day. Names of hosts say where somebody has been:
// a new file is readable by its owner only (0600), an old one keeps its mode.
//
// A [File] and a [Database] are safe for concurrent use.
package memory
