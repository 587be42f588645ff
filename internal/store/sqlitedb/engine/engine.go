// Package engine is SQLite for package sqlitedb: its translation to Go, called directly, below the driver for
// database/sql. It registers itself when it is imported.
package engine

import (
	"syscall"
	"unsafe"

	"modernc.org/libc"
	_ "modernc.org/sqlite" // adapts SQLite to the page size of some machines
	codes "modernc.org/sqlite/lib"

	"github.com/treadlight/crawl/internal/store/sqlitedb"
)

func init() { sqlitedb.Engine.Register(open) }

// conn is a connection; db is 0 if there was no memory for it.
type conn struct {
	tls  *libc.TLS
	db   uintptr
	word uintptr // memory for one pointer that a call returns
}

func open(name string, how sqlitedb.How) (sqlitedb.Conn, sqlitedb.Code) {
	c := &conn{tls: libc.NewTLS()}
	c.word = libc.Xmalloc(c.tls, libc.Tsize_t(unsafe.Sizeof(uintptr(0))))
	path, err := libc.CString(name)
	if c.word == 0 || err != nil {
		return c, sqlitedb.NoMemory
	}
	defer libc.Xfree(c.tls, path)
	// No mutex in SQLite, since only one goroutine at a time uses a connection.
	flags := int32(codes.SQLITE_OPEN_READWRITE | codes.SQLITE_OPEN_NOMUTEX | codes.SQLITE_OPEN_EXRESCODE)
	switch how {
	case sqlitedb.Make:
		flags |= codes.SQLITE_OPEN_CREATE
	case sqlitedb.ByURI:
		flags |= codes.SQLITE_OPEN_URI
	}
	rc := codes.Xsqlite3_open_v2(c.tls, path, c.word, flags, 0)
	c.db = wordAt(c.word)
	return c, sqlitedb.Code(rc)
}

func (c *conn) Close() (rc sqlitedb.Code) {
	if c.db != 0 {
		rc = sqlitedb.Code(codes.Xsqlite3_close_v2(c.tls, c.db))
	}
	libc.Xfree(c.tls, c.word)
	c.tls.Close()
	return rc
}

func (c *conn) Exec(script string) sqlitedb.Code {
	text, err := libc.CString(script)
	if err != nil {
		return sqlitedb.NoMemory
	}
	defer libc.Xfree(c.tls, text)
	return sqlitedb.Code(codes.Xsqlite3_exec(c.tls, c.db, text, 0, 0, 0))
}

func (c *conn) Prepare(query string) (sqlitedb.Statement, sqlitedb.Code) {
	text, err := libc.CString(query)
	if err != nil {
		return nil, sqlitedb.NoMemory
	}
	defer libc.Xfree(c.tls, text)
	if rc := codes.Xsqlite3_prepare_v3(c.tls, c.db, text, -1, codes.SQLITE_PREPARE_PERSISTENT, c.word, 0); rc != codes.SQLITE_OK {
		return nil, sqlitedb.Code(rc)
	}
	return &statement{tls: c.tls, stmt: wordAt(c.word)}, sqlitedb.OK
}

func (c *conn) BusyTimeout(milliseconds int32) {
	codes.Xsqlite3_busy_timeout(c.tls, c.db, milliseconds)
}

func (c *conn) Changes() int64 { return codes.Xsqlite3_changes64(c.tls, c.db) }

func (c *conn) Interrupt() { codes.Xsqlite3_interrupt(c.tls, c.db) }

func (c *conn) Message(rc sqlitedb.Code) (string, syscall.Errno) {
	if c.db == 0 {
		return libc.GoString(codes.Xsqlite3_errstr(c.tls, int32(rc))), 0
	}
	return libc.GoString(codes.Xsqlite3_errmsg(c.tls, c.db)), syscall.Errno(codes.Xsqlite3_system_errno(c.tls, c.db))
}

// scratchSize is the memory of a statement for the texts that are bound to it. Nearly all URLs fit; for others, memory
// is allocated for one run.
const scratchSize = 1 << 10

type statement struct {
	tls     *libc.TLS
	stmt    uintptr
	scratch uintptr   // memory for texts of this run
	used    int       // bytes of scratch in use
	extra   []uintptr // texts of this run that did not fit into scratch
}

func (s *statement) Int(param int, v int64) sqlitedb.Code {
	return sqlitedb.Code(codes.Xsqlite3_bind_int64(s.tls, s.stmt, int32(param), v))
}

func (s *statement) Float(param int, v float64) sqlitedb.Code {
	return sqlitedb.Code(codes.Xsqlite3_bind_double(s.tls, s.stmt, int32(param), v))
}

func (s *statement) Null(param int) sqlitedb.Code {
	return sqlitedb.Code(codes.Xsqlite3_bind_null(s.tls, s.stmt, int32(param)))
}

func (s *statement) Text(param int, v string) sqlitedb.Code {
	p := s.room(len(v))
	if p == 0 {
		return sqlitedb.NoMemory
	}
	copy(bytesAt(p, len(v)), v)
	return sqlitedb.Code(codes.Xsqlite3_bind_text(s.tls, s.stmt, int32(param), p, int32(len(v)), 0))
}

// room returns memory for n bytes, valid until the statement is reset; 0 if there is none.
func (s *statement) room(n int) uintptr {
	if s.scratch == 0 {
		if s.scratch = libc.Xmalloc(s.tls, scratchSize); s.scratch == 0 {
			return 0
		}
	}
	if s.used+n <= scratchSize {
		p := s.scratch + uintptr(s.used)
		s.used += n
		return p
	}
	p := libc.Xmalloc(s.tls, libc.Tsize_t(n))
	if p != 0 {
		s.extra = append(s.extra, p)
	}
	return p
}

func (s *statement) Step() sqlitedb.Code { return sqlitedb.Code(codes.Xsqlite3_step(s.tls, s.stmt)) }

func (s *statement) Reset() {
	codes.Xsqlite3_reset(s.tls, s.stmt) // the error is that of the last step
	for _, p := range s.extra {
		libc.Xfree(s.tls, p)
	}
	s.extra, s.used = s.extra[:0], 0
}

func (s *statement) ColumnInt(column int) int64 {
	return codes.Xsqlite3_column_int64(s.tls, s.stmt, int32(column))
}

func (s *statement) ColumnFloat(column int) float64 {
	return codes.Xsqlite3_column_double(s.tls, s.stmt, int32(column))
}

func (s *statement) ColumnBytes(column int) []byte {
	p := codes.Xsqlite3_column_text(s.tls, s.stmt, int32(column))
	if p == 0 {
		return nil
	}
	return bytesAt(p, int(codes.Xsqlite3_column_bytes(s.tls, s.stmt, int32(column))))
}

func (s *statement) ColumnIsNull(column int) bool {
	return codes.Xsqlite3_column_type(s.tls, s.stmt, int32(column)) == codes.SQLITE_NULL
}

func (s *statement) Close() sqlitedb.Code {
	if s.scratch != 0 {
		libc.Xfree(s.tls, s.scratch)
		s.scratch = 0
	}
	return sqlitedb.Code(codes.Xsqlite3_finalize(s.tls, s.stmt))
}

// bytesAt returns memory of SQLite, which Go does not manage, as a slice.
func bytesAt(p uintptr, n int) []byte { return unsafe.Slice(*(**byte)(unsafe.Pointer(&p)), n) }

// wordAt returns the pointer that SQLite has stored at p.
func wordAt(p uintptr) uintptr { return **(**uintptr)(unsafe.Pointer(&p)) }
