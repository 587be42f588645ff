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

// record is what of a line is looked at. The rest, texts above all, is skipped.
type record struct {
	URL         string    `json:"url"`
	Kind        string    `json:"kind"`
	Status      int       `json:"status"`
	Depth       int       `json:"depth"`
	Referrer    string    `json:"referrer"`
	FetchedAt   time.Time `json:"fetched_at"`
	Attempt     int       `json:"attempt"`
	RedirectTo  string    `json:"redirect_to"`
	ContentType string    `json:"content_type"`
	Bytes       int64     `json:"bytes"`
	WireBytes   int64     `json:"wire_bytes"`
	Truncated   bool      `json:"truncated"`
	Digest      string    `json:"digest"`
	Change      string    `json:"change"`
	Duplicate   string    `json:"duplicate"`
	DuplicateOf string    `json:"duplicate_of"`
	Title       string    `json:"title"`
	Directives  []string  `json:"directives"`
	Nofollow    []string  `json:"nofollow_links"`
	Sitemap     *siteMap  `json:"sitemap"`
	Timings     timings   `json:"timings_ms"`
	Error       *failure  `json:"error"`

	fromState bool // titles and directives are not in the source
}

type siteMap struct {
	Format   string `json:"format"`
	URLs     int64  `json:"urls"`
	Dropped  int64  `json:"dropped"`
	Problems int64  `json:"problems"`
	Problem  string `json:"problem"`
}

type timings struct {
	PermitWait float64 `json:"permit_wait"`
	DNS        float64 `json:"dns"`
	Connect    float64 `json:"connect"`
	TLS        float64 `json:"tls"`
	FirstByte  float64 `json:"first_byte"`
	Body       float64 `json:"body"`
	Total      float64 `json:"total"`
}

type failure struct {
	Class string `json:"class"`
}

type linkRecord struct {
	URL        string   `json:"url"`
	Kind       string   `json:"kind"`
	Referrer   string   `json:"referrer"`
	RedirectTo string   `json:"redirect_to"`
	Links      []string `json:"links"`
	Resources  []string `json:"resources"`
}

// The classes of error that say something of us and nothing of the page.
const (
	classRobots   = "robots"
	classFiltered = "filtered"
	classCanceled = "canceled"
	classTrap     = "trap"
	classHostFull = "host_pages"
	classSitemap  = "sitemap"
	classDenied   = "address_denied"
	classProxy    = "proxy"
	classUnasked  = "unasked_304"
)

func (r *record) class() string {
	if r.Error == nil {
		return ""
	}
	return r.Error.Class
}

// broken reports whether a link to the page leads nowhere, as far as the server has a say.
func (r *record) broken() bool {
	switch r.class() {
	case classRobots, classFiltered, classCanceled, classTrap, classHostFull, classSitemap, classDenied, classProxy, classUnasked:
		return false
	case "redirect_limit", "bad_redirect":
		return true
	}
	return r.Status >= 400 || r.Status == 0 && r.Error != nil
}

// clamp brings figures that no crawl has written, but anybody can put into a file, to where
// sums of them stay numbers: a petabyte, and thirty years.
func (r *record) clamp() {
	const most = 1e12
	t := &r.Timings
	for _, v := range []*float64{&t.PermitWait, &t.DNS, &t.Connect, &t.TLS, &t.FirstByte, &t.Body, &t.Total} {
		if !(*v >= 0 && *v <= most) { // NaN is not
			*v = 0
		}
	}
	for _, n := range []*int64{&r.Bytes, &r.WireBytes} {
		*n = min(max(*n, 0), 1<<50)
	}
	if x := r.Sitemap; x != nil {
		for _, n := range []*int64{&x.URLs, &x.Dropped, &x.Problems} {
			*n = min(max(*n, 0), 1<<40)
		}
	}
}

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
