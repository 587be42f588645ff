package sqlitedb

// Stmt is a prepared statement. Its parameters are bound by number, from 1, and keep their values until they are bound
// again; but texts must be bound before each run. An error of binding is returned by the run.
type Stmt struct {
	db   *DB
	stmt Statement
	rc   Code // error code of the first binding that failed
}

// Prepare prepares one statement, which stays valid until its connection is closed.
func (d *DB) Prepare(query string) (*Stmt, error) {
	s, err := d.prepare(query)
	if err == nil {
		d.stmts = append(d.stmts, s)
	}
	return s, err
}

func (d *DB) prepare(query string) (*Stmt, error) {
	stmt, rc := d.conn.Prepare(query)
	if rc != OK {
		return nil, d.fail(rc)
	}
	return &Stmt{db: d, stmt: stmt}, nil
}

// Int binds an integer.
func (s *Stmt) Int(param int, v int64) { s.bound(s.stmt.Int(param, v)) }

// Float binds a floating-point number.
func (s *Stmt) Float(param int, v float64) { s.bound(s.stmt.Float(param, v)) }

// Null binds NULL.
func (s *Stmt) Null(param int) { s.bound(s.stmt.Null(param)) }

// Text binds a copy of a text.
func (s *Stmt) Text(param int, v string) { s.bound(s.stmt.Text(param, v)) }

// TextOrNull binds a copy of a text, or NULL if it is empty.
func (s *Stmt) TextOrNull(param int, v string) {
	if v == "" {
		s.Null(param)
		return
	}
	s.Text(param, v)
}

func (s *Stmt) bound(rc Code) {
	if s.rc == OK {
		s.rc = rc
	}
}

// Step goes to the next row and reports whether there is one. After the last row, and after an error, the statement is
// reset.
func (s *Stmt) Step() (bool, error) {
	rc := s.rc
	if rc == OK {
		rc = s.stmt.Step()
	}
	if rc == codeRow {
		return true, nil
	}
	err := s.db.check(rc) // before Reset, which drops the message
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

// Reset ends a run, which may be before its last row.
func (s *Stmt) Reset() {
	s.stmt.Reset()
	s.rc = OK
}

// Changes returns how many rows were inserted, updated or deleted by the connection's last completed statement.
func (d *DB) Changes() int64 { return d.conn.Changes() }

// ColumnInt returns a column of the row, counted from 0, as an integer.
func (s *Stmt) ColumnInt(column int) int64 { return s.stmt.ColumnInt(column) }

// ColumnFloat returns a column of the row, counted from 0, as a floating-point number.
func (s *Stmt) ColumnFloat(column int) float64 { return s.stmt.ColumnFloat(column) }

// ColumnText returns a copy of a column of the row, counted from 0, as text; empty for NULL.
func (s *Stmt) ColumnText(column int) string { return string(s.ColumnBytes(column)) }

// ColumnBytes is like ColumnText without the copy. The result is valid until the next Step, Reset or call for this
// column.
func (s *Stmt) ColumnBytes(column int) []byte { return s.stmt.ColumnBytes(column) }

// ColumnIsNull reports whether a column of the row, counted from 0, is NULL.
func (s *Stmt) ColumnIsNull(column int) bool { return s.stmt.ColumnIsNull(column) }

func (s *Stmt) close() error {
	s.Reset()
	return s.db.check(s.stmt.Close())
}
