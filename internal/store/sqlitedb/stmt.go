package sqlitedb

// Stmt is a prepared statement. Its parameters must be bound before each run. An error of binding is returned by the run.
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

// Bind binds the parameters, the first one first, each of type int64, int, float64, bool (as 0 or 1) or string, which is
// copied. Nil and all other types are NULL.
func (s *Stmt) Bind(params ...any) {
	for i, v := range params {
		var rc Code
		switch v := v.(type) {
		case int64:
			rc = s.stmt.Int(i+1, v)
		case int:
			rc = s.stmt.Int(i+1, int64(v))
		case bool:
			rc = s.stmt.Int(i+1, integer(v))
		case float64:
			rc = s.stmt.Float(i+1, v)
		case string:
			rc = s.stmt.Text(i+1, v)
		default:
			rc = s.stmt.Null(i + 1)
		}
		if s.rc == OK {
			s.rc = rc
		}
	}
}

func integer(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// Unless returns v for Bind, or NULL if null is set.
func Unless(null bool, v any) any {
	if null {
		return nil
	}
	return v
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

// Run binds the parameters, runs the statement to its end and resets it.
func (s *Stmt) Run(params ...any) error {
	s.Bind(params...)
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
