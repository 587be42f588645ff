// Package tree writes a crawl as a tree of Markdown files: one file for each page with main text, a file with the
// chunks of all pages, and llms.txt, which lists the pages for people and models (https://llmstxt.org).
//
// The file of the chunks takes the place of the file of records, and is the authority. When a crawl is resumed, it is
// truncated to the last page that the state knows; llms.txt is made from it at the end. The file of a page is written
// whole or not at all, before the page's chunks. The file of a page that is visited again is replaced.
package tree

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"

	"github.com/treadlight/crawl/internal/records/chunk"
	"github.com/treadlight/crawl/internal/records/recordfile"
	"github.com/treadlight/crawl/internal/records/sink"
	"github.com/treadlight/crawl/internal/store/atomicfile"
	"github.com/treadlight/crawl/record"
)

// Index is the name of the list of pages.
const Index = "llms.txt"

// maxListed bounds the number of listed pages.
const maxListed = 100_000

// Writer writes a tree. Like every sink, it must not be used by several goroutines at once.
type Writer struct {
	*sink.Writer
	path, dir string // path of the file of chunks, and its directory
	pages     string // how many the list has; empty before Close
}

// New returns a Writer around the sink of the chunks, whose file is open at path.
func New(chunks *sink.Writer, path string) *Writer {
	return &Writer{Writer: chunks, path: path, dir: filepath.Dir(path)}
}

// Write writes the file of a page, and its chunks.
func (w *Writer) Write(r *record.Record) error {
	if r.Markdown != "" {
		path := filepath.Join(w.dir, filepath.FromSlash(chunk.Name(r.URL)))
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil { // without the bits of the user's umask
			return err
		}
		err := atomicfile.Replace(path, 0o666, func(f io.Writer) error {
			_, err := io.WriteString(f, r.Markdown)
			return err
		})
		if err != nil {
			return err
		}
	}
	return w.Writer.Write(r)
}

// Pages returns how many pages the list has, in words; "" before Close has written it.
func (w *Writer) Pages() string { return w.pages }

// Close ends the chunks and writes the list of pages.
func (w *Writer) Close() error {
	if err := w.Writer.Close(); err != nil {
		return err
	}
	return w.index()
}

// listed is an entry of the list.
type listed struct{ url, title string }

func (w *Writer) index() error {
	pages, more, err := readPages(w.path)
	if err != nil {
		return fmt.Errorf("make %s of the chunks: %w", Index, err)
	}
	if w.pages = english.Plural(len(pages), "page", ""); more {
		w.pages = "more than " + w.pages
	}
	return atomicfile.Replace(filepath.Join(w.dir, Index), 0o666, func(f io.Writer) error {
		_, err := io.WriteString(f, list(pages, more))
		return err
	})
}

// readPages reads the file of chunks and returns the pages by their files, and whether there are more than maxListed.
func readPages(path string) (pages map[string]listed, more bool, err error) {
	f, err := recordfile.Open(path, 0)
	if err != nil {
		return nil, false, err
	}
	defer f.Close() //nolint:errcheck // it was read
	pages = make(map[string]listed)
	err = f.Each(context.Background(), 0, func(l recordfile.Line) error {
		var c chunk.Chunk
		if json.Unmarshal(l.Text, &c) != nil || c.File == "" {
			return nil
		}
		if _, ok := pages[c.File]; !ok && len(pages) == maxListed {
			more = true
		} else if !ok {
			pages[c.File] = listed{c.URL, c.Title}
		}
		return nil
	})
	return pages, more, err
}

var inBrackets = strings.NewReplacer("[", "(", "]", ")", "\n", " ")

// list returns the text of llms.txt, with a section for each host.
func list(pages map[string]listed, more bool) string {
	var b strings.Builder
	files := slices.Sorted(maps.Keys(pages))
	name := "Pages"
	if len(files) > 0 {
		name, _, _ = strings.Cut(files[0], "/")
	}
	fmt.Fprintf(&b, "# %s\n\n> %s as Markdown, each with its URL at its head. chunks.jsonl has them in chunks.\n", name, english.Plural(len(pages), "page", ""))
	last := ""
	for _, file := range files {
		host, _, _ := strings.Cut(file, "/")
		if host != last {
			fmt.Fprintf(&b, "\n## %s\n\n", host)
			last = host
		}
		p := pages[file]
		title := cmp.Or(inBrackets.Replace(p.title), p.url)
		fmt.Fprintf(&b, "- [%s](%s): %s\n", title, file, p.url)
	}
	if more {
		b.WriteString("\nThere are more pages than this list has room for.\n")
	}
	return b.String()
}
