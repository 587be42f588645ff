package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"io"
)

// statement is a prepared statement.
type statement struct {
	driver.Stmt
	named []driver.NamedValue // used again, as calls do not overlap
}

func (s *statement) bind(args []driver.Value) []driver.NamedValue {
	s.named = s.named[:0]
	for i, arg := range args {
		s.named = append(s.named, driver.NamedValue{Ordinal: i + 1, Value: arg})
	}
	return s.named
}

func (s *statement) exec(args ...driver.Value) error {
	_, err := s.count(args...)
	return err
}

// count runs the statement and returns how many rows it changed. The context is one that
// never ends: the driver would start a goroutine for another.
func (s *statement) count(args ...driver.Value) (int64, error) {
	result, err := s.Stmt.(driver.StmtExecContext).ExecContext(context.Background(), s.bind(args))
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// row reads the first row, if there is one, into dest.
func (s *statement) row(dest []driver.Value, args ...driver.Value) (found bool, err error) {
	rows, err := s.Stmt.(driver.StmtQueryContext).QueryContext(context.Background(), s.bind(args))
	if err != nil {
		return false, err
	}
	err = rows.Next(dest)
	if errors.Is(err, io.EOF) {
		return false, rows.Close()
	}
	return err == nil, errors.Join(err, rows.Close())
}
