// Package sqlitedb opens SQLite files and runs prepared statements on them, for the packages that keep something on
// disk.
//
// A [DB] is one connection, in WAL mode unless its [Config] says otherwise. It keeps the statements that have
// parameters prepared, by their texts:
//
//	db, err := sqlitedb.Open(path, sqlitedb.Config{})
//	err = db.Run(`INSERT INTO t VALUES (?, ?)`, 7, "seven")
//
// It is not safe for concurrent use. The only thing that calls wait for is the lock of another process, up to
// [Config.BusyTimeout]. A DB must be closed, which closes its statements.
//
// A file that Open makes survives a power failure from its first checkpoint on; one before leaves no database. A file
// that is deleted or replaced while a connection has it open is still written to, and nobody else sees that; [DB.Gone]
// detects it.
//
// Every error is an [*Error]: it names the file, what is wrong with it and what helps, and [Error.Code] lets callers
// distinguish the kinds. [Lock] keeps other processes out of a whole directory.
//
// SQLite itself is present only if package engine is linked: see [Linked].
//
// # Why not database/sql (2026)
//
// The pure Go translation of SQLite is called directly, below its driver. On the driver's own connections, inserting a
// row of nine values and its index entry took half as long again: each call allocates its values, copies each text into
// newly allocated memory, requests the number of changed rows and returns the result in an interface. database/sql adds
// locks and conversions. Here a call allocates nothing.
package sqlitedb
