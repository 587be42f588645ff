// Package sqlite keeps what keys have used of plans in an SQLite file, so that it outlives
// the process and several processes on one computer share one count.
//
// # Decisions
//
// The states are read and written as rows, and decided upon by the pure functions of
// package admission, within one immediate transaction: it holds the file's write lock from
// its first statement on, so that what it has read is still true when it writes. A
// deferred transaction, which asks for the lock only when it writes, fails at once with
// SQLITE_BUSY if another has written meanwhile, however long it was told to wait. A denial
// writes nothing.
//
// Callers that come while a transaction is under way are decided together in the next
// one, in the order they came ([Config.Batch]). Nobody waits for a batch to fill. Each has
// its answer only after the commit: what was granted is in the file, and a process
// that is killed loses none of it. See [Config.Durable] for power cuts.
//
// The work is done by a goroutine that Take starts when there is none and that ends when
// nobody waits, so that a caller whose context ends can leave though the disk stands still.
// [Repository.Close] waits for it.
//
// # Other processes
//
// While another process has the write lock the goroutine asks again every millisecond
// or two, and not by SQLite's own busy timeout, which knows nothing of contexts and soon
// waits a tenth of a second at a time. When nobody waits any longer it stops; after
// [Config.BusyTimeout] those who wait get an error. A process that sees others write
// pauses from time to time, as the lock knows no queue and they would hardly get it.
// All processes must see the same memory: no network file systems. And nothing in these
// processes may open and close the file by other means than SQLite, because that gives
// up the locks that the process has on it; so it is with POSIX.
//
// A file that is deleted or replaced while it is in use is noticed before the next
// decision, and the one that has its name then is opened, or made: the keys begin anew, for
// all processes.
//
// # What is stored
//
// There is one row per plan and key in the table rate_limit_entries:
//
//	key           plan, a colon, and the key
//	count         tokens taken in the current window; of a bucket 0
//	previous      tokens taken in the window before; of a bucket 0
//	tokens        tokens left in the bucket; of a window NULL
//	window_start  when the window began; of a bucket, when tokens was right
//	expires_at    when nothing of it counts any more
//	created_at    when the row was made
//
// Times are microseconds since the Unix epoch: datetime(expires_at/1e6, 'unixepoch') is
// for people. The table rate_limit_schema has the version of all this, so that the file
// may hold other tables too.
//
// # Forgetting
//
// [Repository.Run] deletes what is over, every hour, in steps of some rows. There is no
// index on expires_at: each decision would have to move its row in it, and that costs more
// than to look at the whole table once an hour. The file does not shrink; its free
// pages are used again. So it is as large as what an hour and the longest plan bring.
//
// # Why this way (2026)
//
// A single statement, UPSERT … RETURNING, would save a sixth of the time of a transaction
// that reads, decides and writes. But then the three algorithms would be there twice, once
// in SQL, and a denial, of which it returns nothing, would need another statement and could
// contradict it. The transaction decides by the very functions that all repositories are
// compared with, over any number of plans, and in batches the difference is gone.
//
// One connection is all that the write lock has work for. It is one of package sqlitedb,
// which opens the file, explains its errors and says why database/sql, with its pool, locks
// and conversions, does not stand between. SQLite is there in pure Go, so that programs
// still cross-compile.
package sqlite
