// Package sqlite brings SQLite, for programs that keep something in its files: a state on disk (Options.State), what was
// learned of hosts (ratelimit.remember), or the counts of an admission service (the Store "sqlite:FILE"). It has no names
// of its own; import it for that effect:
//
//	import _ "github.com/treadlight/crawl/sqlite"
//
// A program that does not, and needs it, gets an error that says so. It adds 7 MB to a binary; no C compiler is needed.
package sqlite

import _ "github.com/treadlight/crawl/internal/store/sqlitedb/engine" // registers itself
