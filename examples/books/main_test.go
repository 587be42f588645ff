package main

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"path/filepath"
	"testing"

	"github.com/treadlight/crawl/examples/internal/check"
)

func TestOutput(t *testing.T) {
	pace = check.Fast
	check.Output(t, "books", check.Pages(check.Books), func(ctx context.Context, out io.Writer, base string) error {
		db, err := sql.Open("sqlite", filepath.Join(t.TempDir(), "books.db"))
		if err != nil {
			return err
		}
		defer db.Close()
		if err := run(ctx, db, base); err != nil {
			return err
		}
		rows, err := db.QueryContext(ctx, "SELECT title, price, list FROM books")
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var title, price, list string
			if err := rows.Scan(&title, &price, &list); err != nil {
				return err
			}
			_, _ = fmt.Fprintf(out, "%s|%s|%s\n", title, price, list)
		}
		return rows.Err()
	})
}
