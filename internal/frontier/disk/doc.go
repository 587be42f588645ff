// Package disk keeps the state of a crawl in a directory, so that it outlives the process: what was found, what is
// queued, what became of the rest, what was learned of the hosts and how far the sinks are written. [Store] is the
// [frontier.Storage] of a crawl that may end at any instant and go on later, and that knows more URLs than fit in
// memory. docs/reference/state.md has the tables.
//
//	state.db    an SQLite database, the only authority, which users may query
//	seen/       fingerprints of the URLs it has (package seen), made anew when damaged
//	lock        keeps a second process away
//
// # Batches
//
// The goroutine of the frontier tells the store what happens and goes on; one writer takes it from there. What was
// told between two calls of [Store.Commit] is a batch: usually the end of a page, its links, and the position that
// the sinks have reached with its record. A batch is in the database whole or not at all, so that after a kill the
// sinks are cut back to the positions there, and no record is missing or there twice. Batches that end within
// a tenth of a second of each other are one transaction. A question ([Store.Load], [Store.Activate]) goes with the batch
// in which it was asked and is answered at once, within the writer's transaction: so it sees all that was told
// before.
//
// A process that is killed loses the batches of the last tenth of a second, and never a part of one. [Store.Flush]
// and [Store.Close] leave nothing to lose. A power cut may cost all commits since the last checkpoint (SQLite in WAL
// mode with synchronous = NORMAL), and damages nothing. That the sinks are not shorter than the state says is what
// [Config.Sync] is for. What cannot be written or believed ends the store: [Store.Failed] is closed, and [Store.Err]
// names the file, the reason and what helps.
//
// # Places
//
// The rows of urls and visits are only ever appended; those of places stand in the order in which each host is
// visited, and links lead to hosts in no order at all. So a URL that is found gets no row there yet, and stays among
// those in memory that have none (unplaced.go): until its host is asked for, or so many have none that writing them
// sorted has a page of the database take many at once. The invariant: a URL behind placed.url is queued if it has a
// row in places or no visit behind placed.visit; any other, if it has a row in places. When a state is opened all
// hosts with work are dormant.
//
// # Rounds
//
// [Store.Again] queues the URLs that were visited once more, in one transaction. Each names the last of its visits
// that says what was there, and what that knows of the version is read with the URL ([frontier.Item.Before]).
//
// # Memory and callers
//
// The process holds the cache of pages (64 MiB at most by the default of 32, as SQLite in Go takes twice as much), 4
// MB of calls that wait, 10 MB of hosts, 8 to 17 MB of URLs that have none, and what package seen states. The
// goroutine of the frontier calls Known, Put, Spent, Done, Load, Activate and Deactivate, and Commit.
// Everything else is safe to call from anywhere.
package disk
