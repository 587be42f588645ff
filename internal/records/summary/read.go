package summary

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/treadlight/crawl/internal/records/recordfile"
	"github.com/treadlight/crawl/internal/records/sink"
)

// Config bounds what is kept. The zero Config is ready to use.
type Config struct {
	// Round is the round of a state to summarize. Zero means the latest.
	Round int
	// List is the most entries of a list. Zero means 100.
	List int
	// Referrers is how many pages are listed that link to a broken one. Zero means 20.
	Referrers int
	// MaxHosts, MaxBroken, MaxRedirects and MaxDigests are how many of each are distinguished. Zero means 10,000 hosts,
	// 10,000 broken pages, 20,000 redirects and 100,000 digests.
	MaxHosts, MaxBroken, MaxRedirects, MaxDigests int
	// MaxLine is the longest line that is read, in bytes; a longer one counts as damaged. Zero means 256 MiB.
	MaxLine int
}

// NoRecordsError is the error about a file without any record.
type NoRecordsError struct {
	Path string
	Err  error // what is wrong with its first line; nil if it has no line
}

func (e *NoRecordsError) Error() string {
	if e.Err == nil {
		return e.Path + " is empty: nothing was crawled, or the records went elsewhere"
	}
	return fmt.Sprintf("%s has no records of a crawl: %v", e.Path, e.Err)
}

func (e *NoRecordsError) Unwrap() error { return e.Err }

// Read summarizes a file of records, or a directory: the records of a crawl with a state or, if it has no records that
// can be read, its state. The error is a [*NoRecordsError], or one of the file system, of the database, or of ctx.
func Read(ctx context.Context, path string, cfg Config) (*Summary, error) {
	cfg.List = cmp.Or(cfg.List, 100)
	cfg.Referrers = cmp.Or(cfg.Referrers, 20)
	cfg.MaxHosts, cfg.MaxBroken = cmp.Or(cfg.MaxHosts, 10_000), cmp.Or(cfg.MaxBroken, 10_000)
	cfg.MaxRedirects, cfg.MaxDigests = cmp.Or(cfg.MaxRedirects, 20_000), cmp.Or(cfg.MaxDigests, 100_000)
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return readDir(ctx, path, cfg)
	}
	return readFile(ctx, path, cfg)
}

func readFile(ctx context.Context, path string, cfg Config) (*Summary, error) {
	c := newCollector(cfg)
	f := file{path: path, maxLine: cfg.MaxLine, src: Source{Path: path, Format: string(sink.JSONL)}}
	if err := f.read(ctx, c.add); err != nil {
		return nil, err
	}
	if c.sum.Records == 0 {
		return nil, &NoRecordsError{Path: path, Err: f.problem}
	}
	if len(c.broken) > 0 && f.src.Links && !f.pipe {
		if err := f.readLinks(ctx, c.link); err != nil {
			return nil, err
		}
	}
	c.sum.Source = f.src
	return c.finish(), nil
}

type file struct {
	path    string
	maxLine int

	pipe    bool  // it cannot be read twice
	size    int64 // bytes that the first reading read; the crawl may write more
	src     Source
	problem error // error of the first damaged line
}

// read calls add with every record. A line that is none is counted as damaged; a last line without an end is only cut
// off.
func (f *file) read(ctx context.Context, add func(*visit)) error {
	r, err := recordfile.Open(f.path, 0)
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }() // it was only read
	f.pipe, f.size = !r.Regular, r.Size
	head, _ := r.Peek(64) // enough to recognize the beginning of a table
	spec := sink.ByStart(head)
	if spec.Separator != 0 {
		f.src.Format = string(spec.Format)
	}
	var table *recordfile.Table
	err = r.Each(ctx, f.maxLine, func(l recordfile.Line) (err error) {
		if spec.Separator != 0 && table == nil {
			table, err = recordfile.NewTable(l.Text, spec.Separator)
			return err
		}
		rec := new(visit)
		err = recordfile.Decode(l, table, rec, func() { rec.fromRow(table) })
		if err == nil && rec.URL == "" {
			err = recordfile.ErrNoURL
		}
		f.src.Links = f.src.Links || table == nil && bytes.Contains(l.Text, []byte(`"links":[`))
		switch {
		case err == nil:
			add(rec)
		case l.Whole:
			f.src.Damaged++
			f.src.FirstDamaged = cmp.Or(f.src.FirstDamaged, l.Number)
		default:
			f.src.Cut = true
		}
		f.problem = cmp.Or(f.problem, err)
		return nil
	})
	f.src.Cut = f.src.Cut || r.Cut()
	return err
}

// linkRecord is the part of a record that says where its page leads.
type linkRecord struct {
	URL        string   `json:"url"`
	RedirectTo string   `json:"redirect_to"`
	Links      []string `json:"links"`
	Resources  []string `json:"resources"`
}

// readLinks reads the file for the second time, without anything that was added since the first. Damage is known by
// then, and ignored.
func (f *file) readLinks(ctx context.Context, link func(*linkRecord)) error {
	r, err := recordfile.Open(f.path, f.size)
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }() // it was only read
	return r.Each(ctx, f.maxLine, func(l recordfile.Line) error {
		if rec := new(linkRecord); !l.Long && json.Unmarshal(l.Text, rec) == nil && rec.URL != "" {
			link(rec)
		}
		return nil
	})
}

// visit is the part of a record that is used. The rest, above all texts, is skipped.
type visit struct {
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
	Error       struct {
		Class string `json:"class"` // empty means that there is no error
	} `json:"error"`

	fromState bool // the source has no titles and directives
}

type siteMap struct {
	Map
	Dropped int64 `json:"dropped"`
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

// all returns the phases, in the order of phaseNames, and then the total.
func (t *timings) all() [7]*float64 {
	return [...]*float64{&t.PermitWait, &t.DNS, &t.Connect, &t.TLS, &t.FirstByte, &t.Body, &t.Total}
}

var phaseNames = [...]string{
	"waiting for the rate limiter", "looking up names", "connecting", "TLS handshakes", "waiting for the first byte", "reading bodies",
}

const (
	classRobots   = "robots"
	classFiltered = "filtered"
)

// broken reports whether links to the page are broken, as far as the server decides that.
func (r *visit) broken() bool {
	switch r.Error.Class {
	case classRobots, classFiltered, "canceled", "trap", "host_pages", "sitemap", "address_denied", "proxy", "unasked_304":
		return false
	case "redirect_limit", "bad_redirect":
		return true
	}
	return r.Status >= 400 || r.Status == 0 && r.Error.Class != ""
}

// clamp limits figures that no crawl writes, but anybody can put into a file, so that sums of them do not overflow: to
// a petabyte, and to thirty years.
func (r *visit) clamp() {
	for _, v := range r.Timings.all() {
		if !(*v >= 0 && *v <= 1e12) { // false for NaN
			*v = 0
		}
	}
	r.Bytes, r.WireBytes = min(max(r.Bytes, 0), 1<<50), min(max(r.WireBytes, 0), 1<<50)
	if x := r.Sitemap; x != nil {
		for _, n := range []*int64{&x.URLs, &x.Dropped, &x.Problems} {
			*n = min(max(*n, 0), 1<<40)
		}
	}
}

// fromRow reads the cells of a line. A table has only the lengths of lists.
func (r *visit) fromRow(t *recordfile.Table) {
	integer := func(name string) int { return int(t.Number(name)) }
	*r = visit{
		URL: t.Text("url"), Kind: t.Text("kind"), Status: integer("status"), Depth: integer("depth"),
		Referrer: t.Text("referrer"), FetchedAt: t.Time(), Attempt: integer("attempt"), RedirectTo: t.Text("redirect_to"),
		ContentType: t.Text("content_type"), Bytes: int64(t.Number("bytes")), WireBytes: int64(t.Number("wire_bytes")),
		Truncated: t.Text("truncated") == "true", Digest: t.Text("digest"), Change: t.Text("change"), Title: t.Text("title"),
		Timings: timings{Total: t.Number("total_ms")},
	}
	r.Error.Class = t.Text("error_class")
	if d := t.Text("directives"); d != "" {
		r.Directives = strings.Split(d, "; ")
	}
}
