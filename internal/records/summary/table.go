package summary

import (
	"bufio"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// eachRow is each for a table, whose columns are found by their names. Of lists it has only
// the lengths.
func (f *file) eachRow(ctx context.Context, in *bufio.Reader, separator byte, add func(*record)) error {
	r := csv.NewReader(in)
	r.Comma, r.ReuseRecord = rune(separator), true
	r.FieldsPerRecord = 0 // as the header has
	r.LazyQuotes = true
	header, err := r.Read()
	if err != nil {
		return fmt.Errorf("read %s: %w", f.path, err)
	}
	columns := make(map[string]int, len(header))
	for i, name := range header {
		columns[name] = i
	}
	for f.line = 2; ; f.line++ {
		if f.line%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		cells, err := r.Read()
		_, damaged := errors.AsType[*csv.ParseError](err)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, io.ErrUnexpectedEOF):
			f.src.Cut = true
			return nil
		case damaged:
			_, more := in.Peek(1)
			f.damaged(err, more == nil)
			continue
		case err != nil:
			return fmt.Errorf("read %s: %w", f.path, err)
		}
		rec, err := (&row{columns: columns, cells: cells}).record()
		if err != nil {
			f.damaged(err, true)
			continue
		}
		add(rec)
	}
}

// row is one line.
type row struct {
	columns map[string]int
	cells   []string
	err     error // the first
}

// text is a copy of a cell. The apostrophe that keeps a spreadsheet from taking it for a
// formula goes.
func (c *row) text(name string) string {
	i, ok := c.columns[name]
	if !ok || i >= len(c.cells) {
		return ""
	}
	s := c.cells[i]
	if rest, ok := strings.CutPrefix(s, "'"); ok && strings.ContainsAny(rest[:min(1, len(rest))], "=+-@") {
		s = rest
	}
	return strings.Clone(s) // cells are those of the next line soon
}

func (c *row) number(name string) float64 {
	s := c.text(name)
	if s == "" {
		return 0
	}
	v, err := strconv.ParseFloat(s, 64)
	if err != nil && c.err == nil {
		c.err = fmt.Errorf("%s is %q: it is no number", name, s)
	}
	return v
}

// record is the line as JSON would have it.
func (c *row) record() (*record, error) {
	r := &record{
		URL: c.text("url"), Kind: c.text("kind"), Status: int(c.number("status")), Depth: int(c.number("depth")),
		Referrer: c.text("referrer"), Attempt: int(c.number("attempt")), RedirectTo: c.text("redirect_to"),
		ContentType: c.text("content_type"), Bytes: int64(c.number("bytes")), WireBytes: int64(c.number("wire_bytes")),
		Truncated: c.text("truncated") == "true", Digest: c.text("digest"), Change: c.text("change"), Title: c.text("title"),
		Timings: timings{Total: c.number("total_ms")},
	}
	if d := c.text("directives"); d != "" {
		r.Directives = strings.Split(d, "; ")
	}
	if class := c.text("error_class"); class != "" {
		r.Error = &failure{Class: class}
	}
	var err error
	if r.FetchedAt, err = time.Parse(time.RFC3339, c.text("fetched_at")); err != nil && c.err == nil {
		c.err = fmt.Errorf("fetched_at: %w", err)
	}
	if r.URL == "" && c.err == nil {
		c.err = errors.New("a line has no url")
	}
	return r, c.err
}
