// Command resume writes books to a file, and goes on where it was, whatever has ended it: kill -9, too.
package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/record"
	_ "github.com/treadlight/crawl/sqlite" // for the state
)

var pace crawl.PolitenessOptions

type Book struct{ URL, Title string }

func run(ctx context.Context, dir, file, seed string) error {
	options := crawl.Options{StateDir: dir, Politeness: pace}
	var at *record.Position // how far the file is
	state, err := crawl.OpenState(crawl.StateConfig{Dir: dir})
	if err == nil {
		options = state.Options()
		position := state.Position(file)
		at = &position
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	books, err := crawl.Items[Book](file, at)
	if err != nil {
		return err // the state is as it was; Close of it would free it for others in this process
	}
	defer books.Close()
	options.Sinks = []record.Sink{books}
	options.Router = crawl.NewRouter()
	options.Router.Handle("/catalogue/{name}", func(_ context.Context, p *crawl.Page) error {
		if h1 := p.First("h1"); h1.OK() {
			return p.Emit(Book{p.URL.Path, h1.Text()})
		}
		return nil
	})
	c, err := crawl.New(options)
	if err != nil {
		return err
	}
	return c.Run(ctx, seed)
}

func main() {
	fmt.Println("error:", run(context.Background(), "books.state", "books.jsonl", os.Args[1]))
}
