// Command books takes the books of a catalogue into SQLite: lists lead to details.
package main

import (
	"context"
	"database/sql"
	"fmt"
	"os"

	_ "modernc.org/sqlite"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/record"
)

var pace crawl.PolitenessOptions

type Book struct{ URL, Title, Price, List string }

// table is a sink for books. It has those of a page once the page has been crawled.
type table struct{ *sql.DB }

func (table) Write(*record.Record) error { return nil }
func (table) Flush() error               { return nil }
func (table) Takes(v any) bool           { _, ok := v.(Book); return ok }
func (t table) WriteItem(_ *record.Record, item record.Item) error {
	b := item.Value.(Book)
	_, err := t.Exec("INSERT OR REPLACE INTO books VALUES (?, ?, ?, ?)", b.URL, b.Title, b.Price, b.List)
	return err
}

func run(ctx context.Context, db *sql.DB, seed string) error {
	r := crawl.NewRouter()
	r.Handle("/catalogue/page-{n}", func(_ context.Context, p *crawl.Page) error {
		for a := range p.Find("article.book h3 a") {
			p.Follow(a.Attr("href"), crawl.WithPriority(1), crawl.WithMeta("list", p.Param("n")))
		}
		return nil
	})
	r.Handle("/catalogue/{name}", func(_ context.Context, p *crawl.Page) error {
		return p.Emit(Book{p.URL.Path, p.First("h1").Text(), p.First(".price").Text(), p.Meta("list")})
	})
	c, err := crawl.New(crawl.Options{Politeness: pace, Router: r, Sinks: []record.Sink{table{db}}})
	if err == nil {
		_, err = db.Exec("CREATE TABLE IF NOT EXISTS books (url PRIMARY KEY, title, price, list)")
	}
	if err != nil {
		return err
	}
	return c.Run(ctx, seed)
}

func main() {
	db, err := sql.Open("sqlite", "books.db")
	if err == nil {
		err = run(context.Background(), db, os.Args[1])
	}
	fmt.Println("books.db:", err)
	_ = db.Close()
}
