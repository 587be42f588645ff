// Package disk keeps the state of a crawl in a directory, so that it outlives the process: which URLs were found, which
// are queued, the visits of the others, what was learned of the hosts, and how far the sinks are written. [Store] is
// the [frontier.Storage] of a crawl that may end at any instant and be resumed later, and that knows more URLs than fit
// in memory. docs/reference/state.md describes the tables.
//
//	state.db    an SQLite database, the only authority, which users may query
//	seen/       fingerprints of its URLs (package seen), made anew when damaged
//	lock        keeps other processes away
//
// # Batches
//
// The goroutine of the frontier calls the store and does not wait; one writer stores the calls. The calls between two
// calls of [Store.Commit] are a batch: usually the end of a page, its links, and the positions that the sinks have
// reached with its record. The database contains all of a batch or nothing of it. So after a kill the sinks are
// truncated to the stored positions, and no record is missing or repeated. Batches that end within a tenth of a second
// of each other are one transaction. A request for rows ([Store.Load], [Store.Activate]) belongs to the batch in which
// it was made and is answered without delay, within the writer's transaction, so that the answer reflects all calls
// before it.
//
// A killed process loses the batches of the last tenth of a second, or of the time in which rows of places are written,
// and never part of a batch. After [Store.Flush] or [Store.Close] there is nothing to lose. A power cut may cost all
// commits since the last checkpoint (SQLite in WAL mode with synchronous = NORMAL), but damages nothing. [Config.Sync]
// ensures that the sinks are not shorter than the state says. Data that cannot be written or is not credible ends the
// store: [Store.Failed] is closed, and [Store.Err] names the file, the reason and what helps.
//
// # Places
//
// Rows of urls and visits are only ever appended. Rows of places are in the order in which each host is visited, and
// links lead to hosts in no order at all. So a URL that is found gets no row in places at once but stays in a list of
// such URLs in memory (unplaced.go), until its host is loaded or until the list is so long that writing it sorted puts
// many rows on the same page of the database. Nothing is committed or loaded meanwhile: half a second on an idle machine
// with an SSD, seconds on a busy one, longer on a disk that must seek for each page. The invariant: a URL behind
// placed.url is queued if it has a row in places or no visit behind placed.visit; any other URL is queued if it has a
// row in places. When a state is opened, all hosts with queued URLs are inactive (dormant in the tables).
//
// # Rounds
//
// [Store.Again] queues the visited URLs once more, in one transaction. Each row names the last visit of its URL that
// says what was there, and what that visit says of the page is loaded with the URL ([frontier.Item.Before]).
//
// # Memory and callers
//
// The process holds the page cache (at most 64 MiB with the default of 32, as SQLite in Go takes twice as much), 4 MB
// of calls that wait, 10 MB of hosts, 6 MB of URLs without a row in places, and what package seen states. The
// goroutine of the frontier calls Known, Put, Spent, Done, Load, Activate, Deactivate and Commit. All other methods are
// safe for concurrent use.
package disk
