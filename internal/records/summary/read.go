package summary

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/treadlight/crawl/internal/records/recordfile"
	"github.com/treadlight/crawl/internal/records/sink"
)

// Config says how much is kept. The zero Config is ready to use.
type Config struct {
	// Round is that of a state to look at. Zero means the latest.
	Round int
	// List is how long lists are. Zero means 100.
	List int
	// Referrers is how many pages are named that link to a broken one. Zero means 20.
	Referrers int
	// MaxHosts, MaxBroken, MaxRedirects and MaxDigests are how many of each are told apart.
	// Zero means 10,000 hosts, 10,000 broken pages, 20,000 redirects and 100,000 digests.
	MaxHosts, MaxBroken, MaxRedirects, MaxDigests int
	// MaxLine is the longest line that is read, in bytes; a longer one is damaged. Zero means
	// 256 MiB: a page with its body has a line of four thirds of that.
	MaxLine int
}

func (c Config) withDefaults() Config {
	c.List = cmp.Or(c.List, 100)
	c.Referrers = cmp.Or(c.Referrers, 20)
	c.MaxHosts = cmp.Or(c.MaxHosts, 10_000)
	c.MaxBroken = cmp.Or(c.MaxBroken, 10_000)
	c.MaxRedirects = cmp.Or(c.MaxRedirects, 20_000)
	c.MaxDigests = cmp.Or(c.MaxDigests, 100_000)
	c.MaxLine = cmp.Or(c.MaxLine, recordfile.DefaultMaxLine)
	return c
}

// NoRecordsError is returned for a file in which nothing is a record.
type NoRecordsError struct {
	Path string
	Err  error // what is wrong with its first line; nil if it has none
}

func (e *NoRecordsError) Error() string {
	if e.Err == nil {
		return e.Path + " is empty: nothing was crawled, or the records went elsewhere"
	}
	return fmt.Sprintf("%s has no records of a crawl: %v", e.Path, e.Err)
}

func (e *NoRecordsError) Unwrap() error { return e.Err }

// Read summarizes a file of records, or a directory: the records of a crawl that is kept,
// and if it has none that can be read, its state. An error is a [*NoRecordsError], one of
// the file system, of the database, or of ctx.
func Read(ctx context.Context, path string, cfg Config) (*Summary, error) {
	cfg = cfg.withDefaults()
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
	f := file{path: path, maxLine: cfg.MaxLine}
	src, err := f.each(ctx, c.add)
	if err != nil {
		return nil, err
	}
	if c.sum.Records == 0 {
		return nil, &NoRecordsError{Path: path, Err: f.problem}
	}
	if len(c.broken) > 0 && src.Links && !f.pipe {
		err = f.eachLinkRecord(ctx, c.link)
	}
	c.sum.Source = src
	return c.finish(), err
}

type file struct {
	path    string
	maxLine int

	pipe    bool  // it cannot be read twice
	size    int64 // of what was read at first; the crawl may write on
	src     Source
	line    int64
	problem error // of the first damaged line
}

// open opens the file. Nothing beyond what was there at first is read, the second time too.
func (f *file) open() (*recordfile.Reader, error) {
	r, err := recordfile.Open(f.path, f.size)
	if err == nil {
		f.pipe, f.size = !r.Regular, r.Size
	}
	return r, err
}

func (f *file) each(ctx context.Context, add func(*record)) (Source, error) {
	r, err := f.open()
	if err != nil {
		return Source{}, err
	}
	defer func() { _ = r.Close() }() // it was only read
	f.src = Source{Path: f.path, Format: string(sink.JSONL)}
	head, _ := r.Peek(64) // more than a table begins with
	if spec := sink.ByStart(head); spec.Separator != 0 {
		f.src.Format = string(spec.Format)
		err = f.eachRow(ctx, r.Reader, spec.Separator, add)
		return f.src, err
	}
	err = f.lines(ctx, r, true, func(line []byte, whole bool) {
		rec := new(record)
		err := json.Unmarshal(line, rec)
		if err == nil && rec.URL == "" {
			err = errors.New("a line has no url")
		}
		if err != nil {
			f.damaged(err, whole)
			return
		}
		f.src.Links = f.src.Links || bytes.Contains(line, []byte(`"links":[`))
		add(rec)
	})
	return f.src, err
}

// eachLinkRecord is each for the second time, in which damage is known.
func (f *file) eachLinkRecord(ctx context.Context, link func(*linkRecord)) error {
	r, err := f.open()
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }() // it was only read
	return f.lines(ctx, r, false, func(line []byte, _ bool) {
		if l := new(linkRecord); json.Unmarshal(line, l) == nil && l.URL != "" {
			link(l)
		}
	})
}

// damaged counts a line that is no record. The last one, if it has no end, is only cut off.
func (f *file) damaged(err error, whole bool) {
	if f.problem == nil {
		f.problem = err
	}
	if !whole {
		f.src.Cut = true
		return
	}
	f.src.Damaged++
	f.src.FirstDamaged = cmp.Or(f.src.FirstDamaged, f.line)
}

// errLong is that of a line beyond the bound.
var errLong = errors.New("a line is too long")

// lines calls take for every line that is not empty, and says whether it has its end. The
// line is valid until take returns.
func (f *file) lines(ctx context.Context, r *recordfile.Reader, count bool, take func(line []byte, whole bool)) error {
	err := r.Each(ctx, f.maxLine, func(l recordfile.Line) error {
		f.line = l.Number
		switch {
		case !l.Long:
			take(l.Text, l.Whole)
		case count:
			f.damaged(errLong, true)
		}
		return nil
	})
	f.src.Cut = f.src.Cut || r.Cut()
	return err
}
