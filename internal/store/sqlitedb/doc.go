// Package sqlitedb opens SQLite files and runs prepared statements on them, for the
// parts of the tree that keep something on disk.
//
// A [DB] is one connection, in WAL mode, and a [Stmt] one prepared statement of it:
//
//	db, err := sqlitedb.Open(path, sqlitedb.Config{})
//	insert, err := db.Prepare(`INSERT INTO t VALUES (?, ?)`)
//	insert.Int(1, 7)
//	insert.Text(2, "seven")
//	err = insert.Run()
//
// Neither is safe for concurrent use, and nothing here waits but for another process's
// lock, up to [Config.BusyTimeout]. A DB must be closed, its statements are with it.
//
// A file that Open makes is there from then on, also after a power cut. One that is deleted or replaced under its connection is
// written to as before, and nobody else sees it: [DB.Gone] tells.
//
// Every error is an [*Error]: it names the file, what is wrong with it and what helps, and [Error.Code] lets callers
// tell the kinds apart. [Lock] keeps a second process away from a whole directory.
//
// SQLite itself is there only if package engine is linked: see [Linked].
//
// # Why not database/sql (2026)
//
// The pure Go translation of SQLite is called directly, below its driver. On the driver's own connections the
// insertion of a row of nine values and its index entry took half as long again: each call boxes its values, copies
// each text into memory it allocates, asks for the number of changed rows and reports the result in an interface. By
// database/sql locks and conversions come on top of that. Here a call allocates nothing.
package sqlitedb
