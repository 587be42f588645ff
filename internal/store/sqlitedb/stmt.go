package sqlitedb

import (
	"unsafe"

	"modernc.org/libc"
	codes "modernc.org/sqlite/lib"
)

// scratchSize is the room of a statement for the texts it is given. Nearly all URLs
// fit; what does not is allocated for one run.
const scratchSize = 1 << 10

// Stmt is a prepared statement. Its parameters are bound by number, from 1, and keep their values until they are bound
// again; texts must be bound before each run. An error of binding is returned by the run.
type Stmt struct {
	db      *DB
	stmt    uintptr
	scratch uintptr   // texts of this run
	used    int       // of scratch
	extra   []uintptr // texts of this run that found no room in it
	rc      int32     // of the first binding that failed
}

// Prepare prepares one statement, which lives as long as its connection.
func (d *DB) Prepare(query string) (*Stmt, error) {
	s, err := d.prepare(query)
	if err == nil {
		d.stmts = append(d.stmts, s)
	}
	return s, err
}

func (d *DB) prepare(query string) (*Stmt, error) {
	text, err := libc.CString(query)
	if err != nil {
		return nil, err
	}
	defer libc.Xfree(d.tls, text)
	if rc := codes.Xsqlite3_prepare_v3(d.tls, d.db, text, -1, codes.SQLITE_PREPARE_PERSISTENT, d.word, 0); rc != codes.SQLITE_OK {
		return nil, d.fail(rc)
	}
	return &Stmt{db: d, stmt: wordAt(d.word)}, nil
}

// Int binds an integer.
func (s *Stmt) Int(param int, v int64) {
	s.bound(codes.Xsqlite3_bind_int64(s.db.tls, s.stmt, int32(param), v))
}

// Float binds a floating-point number.
func (s *Stmt) Float(param int, v float64) {
	s.bound(codes.Xsqlite3_bind_double(s.db.tls, s.stmt, int32(param), v))
}

// Null binds NULL.
func (s *Stmt) Null(param int) {
	s.bound(codes.Xsqlite3_bind_null(s.db.tls, s.stmt, int32(param)))
}

// Text binds a copy of a text.
func (s *Stmt) Text(param int, v string) {
	p := s.room(len(v))
	if p == 0 {
		s.bound(codes.SQLITE_NOMEM)
		return
	}
	copy(bytesAt(p, len(v)), v)
	s.bound(codes.Xsqlite3_bind_text(s.db.tls, s.stmt, int32(param), p, int32(len(v)), 0))
}

// TextOrNull binds a copy of a text, and NULL for an empty one.
func (s *Stmt) TextOrNull(param int, v string) {
	if v == "" {
		s.Null(param)
		return
	}
	s.Text(param, v)
}

func (s *Stmt) bound(rc int32) {
	if s.rc == codes.SQLITE_OK {
		s.rc = rc
	}
}

// room is memory for n bytes until the statement is reset; 0 if there is none.
func (s *Stmt) room(n int) uintptr {
	if s.scratch == 0 {
		if s.scratch = libc.Xmalloc(s.db.tls, scratchSize); s.scratch == 0 {
			return 0
		}
	}
	if s.used+n <= scratchSize {
		p := s.scratch + uintptr(s.used)
		s.used += n
		return p
	}
	p := libc.Xmalloc(s.db.tls, libc.Tsize_t(n))
	if p != 0 {
		s.extra = append(s.extra, p)
	}
	return p
}

// Step goes to the next row and reports whether there is one. After the last, and after
// an error, the statement is reset.
func (s *Stmt) Step() (bool, error) {
	rc := s.rc
	if rc == codes.SQLITE_OK {
		rc = codes.Xsqlite3_step(s.db.tls, s.stmt)
	}
	if rc == codes.SQLITE_ROW {
		return true, nil
	}
	err := s.db.check(rc) // before Reset, after which its text is gone
	s.Reset()
	return false, err
}

// Run runs the statement to its end and resets it.
func (s *Stmt) Run() error {
	for {
		if more, err := s.Step(); !more {
			return err
		}
	}
}

// Reset ends a run before its last row.
func (s *Stmt) Reset() {
	codes.Xsqlite3_reset(s.db.tls, s.stmt) // whose error is that of the last step
	for _, p := range s.extra {
		libc.Xfree(s.db.tls, p)
	}
	s.extra, s.used, s.rc = s.extra[:0], 0, codes.SQLITE_OK
}

// Changes is how many rows the last statement of the connection that ended has inserted, updated or deleted.
func (d *DB) Changes() int64 { return codes.Xsqlite3_changes64(d.tls, d.db) }

// ColumnInt is a column of the row, from 0, as an integer.
func (s *Stmt) ColumnInt(column int) int64 {
	return codes.Xsqlite3_column_int64(s.db.tls, s.stmt, int32(column))
}

// ColumnFloat is a column of the row, from 0, as a floating-point number.
func (s *Stmt) ColumnFloat(column int) float64 {
	return codes.Xsqlite3_column_double(s.db.tls, s.stmt, int32(column))
}

// ColumnText is a copy of a column of the row, from 0, as text; empty for NULL.
func (s *Stmt) ColumnText(column int) string { return string(s.ColumnBytes(column)) }

// ColumnBytes is ColumnText without the copy. It is valid until the next Step, Reset or call for this column.
func (s *Stmt) ColumnBytes(column int) []byte {
	p := codes.Xsqlite3_column_text(s.db.tls, s.stmt, int32(column))
	if p == 0 {
		return nil
	}
	return bytesAt(p, int(codes.Xsqlite3_column_bytes(s.db.tls, s.stmt, int32(column))))
}

// ColumnIsNull reports whether a column of the row, from 0, is NULL.
func (s *Stmt) ColumnIsNull(column int) bool {
	return codes.Xsqlite3_column_type(s.db.tls, s.stmt, int32(column)) == codes.SQLITE_NULL
}

func (s *Stmt) close() error {
	s.Reset()
	if s.scratch != 0 {
		libc.Xfree(s.db.tls, s.scratch)
		s.scratch = 0
	}
	rc := codes.Xsqlite3_finalize(s.db.tls, s.stmt)
	s.stmt = 0
	return s.db.check(rc)
}

// bytesAt is memory of SQLite's, which is none of Go's.
func bytesAt(p uintptr, n int) []byte { return unsafe.Slice(*(**byte)(unsafe.Pointer(&p)), n) }

// wordAt is the pointer that SQLite has stored at p.
func wordAt(p uintptr) uintptr { return **(**uintptr)(unsafe.Pointer(&p)) }
