package sqlitedb

// Stmt is a prepared statement at a row of its result.
type Stmt struct {
	Row

	stmt    Statement
	running bool
}

// ColumnText returns a copy of a column, counted from 0, as text; empty for NULL.
func (s *Stmt) ColumnText(column int) string { return string(s.ColumnBytes(column)) }

// run runs the statement to its end, or until row returns an error, and resets it.
func (s *Stmt) run(d *DB, row func(*Stmt) error, params []any) (err error) {
	s.running = true
	rc := s.bind(params)
	for more := rc == OK; more; {
		if rc = s.stmt.Step(); rc == codeRow {
			err = row(s)
		}
		more = rc == codeRow && err == nil
	}
	if err == nil {
		err = d.check(rc) // before Reset, which drops the message
	}
	s.stmt.Reset()
	s.running = false
	return err
}

func (s *Stmt) bind(params []any) (rc Code) {
	for i, v := range params {
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
		if rc != OK {
			return rc
		}
	}
	return OK
}

func integer(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// Unless returns v as a parameter, or NULL if null is set.
func Unless(null bool, v any) any {
	if null {
		return nil
	}
	return v
}

// Changes returns how many rows were inserted, updated or deleted by the connection's last completed statement.
func (d *DB) Changes() int64 { return d.conn.Changes() }
