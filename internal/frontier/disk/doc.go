// Package disk keeps the state of a crawl in a directory, so that it outlives the process:
// what was found, what is queued, what became of the rest, what was learned of the hosts
// and how far the sinks are written. [Store] is the [frontier.Store] of a crawl that may
// end at any instant and go on later, and that knows more URLs than fit in memory.
//
//	state.db    an SQLite database, the only authority, which users may query
//	seen/       fingerprints of the URLs it has (package seen), made anew when damaged
//	lock        keeps a second process away; that it is there means nothing, and who has it
//	            ends when it is gone
//
// # Batches
//
// The goroutine of the frontier tells the store what happens and goes on; one writer takes
// it from there. What was told between two calls of [Store.Commit] is a batch: usually the
// end of a page, its links, and the position that the sinks have reached with its record.
// A batch is in the database whole or not at all, so that after a kill the sinks are cut
// back to the positions there, and no record is missing or there twice.
//
// Batches that end within [Config.Linger] of each other are one transaction. A question
// ([Store.Load], [Store.Activate]) is answered at once, also in the middle of a batch, within
// the writer's transaction: so it sees all that was told before. Batches that have ended
// are committed first, since nothing can be from then on until the batch under way ends.
// Roused hosts belong to no batch, and when a state is opened all hosts with work are
// dormant anyway.
//
// # What is promised
//
// A process that is killed loses the batches that have not been committed, which is what
// came in the last tenth of a second, and never a part of one. [Store.Flush] and
// [Store.Close] leave nothing to lose. A power cut may cost all commits since the last
// checkpoint (SQLite in WAL mode with synchronous = NORMAL), and damages nothing: the state
// is then that of an earlier moment, and so are the sinks, once they are cut back. That
// the sinks are not shorter than the state says is what [Config.Sync] is for. It is called
// before a commit that has positions, so that they are on the disk first, unless the disk
// lies.
//
// What cannot be written or believed ends the store: a full disk, an I/O error, a database
// that is damaged or that somebody has deleted, a row whose URL is none. Nothing is told
// or answered from then on, [Store.Failed] is closed, and [Store.Err] names the file, the
// reason and what helps. What was committed stays.
//
// # The schema
//
// All times are milliseconds since 1970, all tables are strict.
//
//	meta    key, value: fingerprint_key, program, created, and what the crawl sets
//	hosts   id, name, known (URLs ever), refused (of them, by robots.txt or a budget),
//	        dormant (its place among hosts without room in memory)
//	urls    id, host, rank, depth, hops, seed, referrer (an id), queued_at, url, kind
//	places  host, rank, url (an id), attempts, returns, strikes, visit (an id): for URLs that
//	        are queued, but for those found lately
//	placed  url (an id), visit (an id): one row; queued URLs behind it may have none in places
//	visits  id, url (an id), at, status, class, bytes, retries, round, change, etag, modified,
//	        digest: for each that is not, once in each round
//	rounds  round, began, due
//	rates   host, used, rate, pause_ns, retry_until, held_until
//	sinks   path, format, bytes, records
//	guesses url, absent, referrer (an id), depth, hops: for places where a sitemap was looked for
//	        in vain, or that a page links to
//	queue   a view: like places, with a row for each URL that is queued
//	latest  a view: the last visit of each URL
//	pages   a view: each URL with its host, referrer, state and last visit
//	broken  a view: last visits without an answer, or with a status of 400 and above
//	changes a view: what later rounds have found to be different, or the same
//
// The file's application_id is ours and its user_version that of the schema. Older versions
// are migrated when the state is opened, newer ones refused. Whoever reads should do so
// briefly: the log grows while a reader is in it.
//
// # Rounds
//
// [Store.Again] queues the URLs that were visited once more, in one transaction. Each names
// the last of its visits that says what was there, and what that knows of the version is
// read with the URL ([frontier.Item.Before]). There is no other index of visits by URL: a
// round begins with one pass over all of them, which is cheaper than to keep one.
//
// # Places
//
// The rows of places stand in the order in which each host is visited, and links lead to
// hosts in no order at all. So a URL that is found gets no row there yet, as urls says all of
// it, and stays among those in memory that have none (unplaced.go): until its host is asked
// for, or so many have none that writing them sorted has a page of the database take many at
// once. One that is visited before never gets any. The invariant: a URL behind placed.url is
// queued if it has a row in places or no visit behind placed.visit; any other, if it has a row
// in places.
//
// # Who may call
//
// The goroutine of the frontier calls Known, Put, Spent, Done, Guess, Load, Activate and Deactivate, and Commit
// and SetMeta, which end and change the batch that these are of. Everything else is safe
// to call from anywhere. [Store.Close] comes when the frontier has ended.
//
// # Memory and disk
//
// The process holds the cache of pages (64 MiB at most by the default of 32, as SQLite in
// Go takes twice as much), 4 MB of calls that wait, 10 MB of hosts, 10 MB of places, 6 to
// 13 MB of URLs that have none, and what
// package seen states. When ten million URLs of 85 bytes, of 20,000 hosts, had been put the
// process had grown to 178 MB, and all was 141 bytes of disk for each; of a million, one that
// was visited took 10 bytes more than one that was queued.
//
// # Why this way (2026)
//
// By research, SQLite alone with a unique index of fingerprints wrote 15 GB for two million
// URLs and was half as quick as with the index apart: every new URL changes a page of such an
// index, wherever it comes from. That a visited URL leaves the queue, rather than
// change its row, is for the same reason. A Put took 5.1 µs of CPU time among a million URLs
// of 20,000 hosts and 7.3 among four, a URL's part of a Load 2.8 and 2.7, and a Done, of
// URLs that were loaded, 3.3 and 4.2. When hosts counted their queue, visits were keyed by URL
// and each Done looked for its URL, it took 20. Pages of 2 KiB made a Put a sixth dearer, and
// those of 8 KiB changed nothing.
//
// Rows of places are left for later since they were most of what was written. Of three million
// URLs of 20,000 hosts, of which four in five were next to another of their host, a Put
// wrote 1,345 bytes when each had its row at once, nearly all of them pages of that table, and
// 347 since, for 7.7 and 5.0 µs of CPU time; a URL's part of a Load, which writes the rows of its
// host, went from 3.2 to 4.3 µs (one run after the other on a machine with other work, half a
// million rows at a time). What a visit writes did not change.
//
// What is kept of versions, among 150,000 URLs: a visit took 7 bytes more than before there
// were any, and 65 more with an ETag of 20 bytes, a date and a digest, for 5.8 to 6.5 µs of CPU
// time instead of 4.5 to 5.3. To begin a round took 3.5 µs for each of 300,000 URLs.
package disk
