package merge

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/treadlight/crawl/internal/records/recordfile"
	"github.com/treadlight/crawl/internal/records/sink"
	"github.com/treadlight/crawl/internal/records/sink/warc"
)

// CDXJ is the format of an index of archives; those of records are package sink's.
const CDXJ sink.Format = "cdxj"

var (
	packed     = []string{"", ".gz", ".zst"} // what may stand behind the ending of a file
	byteOrder  = []byte("\xef\xbb\xbf")
	errNoURL   = errors.New("it has no url")
	errLong    = errors.New("it is too long")
	errColumns = errors.New("it has not the columns of the first line")
)

// Files is the files that paths name. A directory stands for the files of records in it, by
// the endings of their names, or if it has none for its indexes of archives, and not for what
// is in directories below.
func Files(paths []string) ([]string, error) {
	var files []string
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		if !info.IsDir() {
			files = append(files, path)
			continue
		}
		inside, err := filesIn(path)
		if err != nil {
			return nil, err
		}
		files = append(files, inside...)
	}
	for i, path := range files {
		a, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		for _, other := range files[:i] {
			if b, err := os.Stat(other); err == nil && os.SameFile(a, b) {
				files[i] = "" // given twice, as by a directory and a file in it
			}
		}
	}
	return slices.DeleteFunc(files, func(s string) bool { return s == "" }), nil
}

func filesIn(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var records, indexes []string
	below := ""
	for _, e := range entries {
		name := e.Name()
		for _, p := range packed {
			bare, ok := strings.CutSuffix(name, p)
			if !ok || e.IsDir() {
				continue
			}
			ending := filepath.Ext(bare)
			if spec := sink.ByEnding(ending); spec.Lines() && spec.Ending() == ending {
				records = append(records, filepath.Join(dir, name))
			} else if ending == warc.IndexEnding {
				indexes = append(indexes, filepath.Join(dir, name))
			}
		}
		if e.IsDir() {
			below = filepath.Join(dir, name)
		}
	}
	switch {
	case len(records) > 0:
		return records, nil
	case len(indexes) > 0:
		return indexes, nil
	case below != "":
		return nil, fmt.Errorf("%s has no files of records; if they are in directories below, as in %s, give these: %s/*", dir, below, strings.TrimSuffix(dir, "/"))
	}
	return nil, fmt.Errorf("%s has no files of records (%s, %s)", dir, sink.EndingList(", "), warc.IndexEnding)
}

type source struct {
	path    string
	format  sink.Format // empty: there is nothing in it
	header  string      // of a table
	size    int64       // of what is read, as it lies
	columns columns
	cut     bool // its beginning is already
}

func open(path string) (*source, error) {
	r, err := recordfile.Open(path, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }() // it was only read
	s := &source{path: path, size: r.Size}
	if !r.Regular {
		return nil, fmt.Errorf("%s is a pipe or a device, and files are read twice: give a file", path)
	}
	head, err := r.Peek(min(64<<10, r.Reader.Size()))
	s.cut = recordfile.CutOff(err) // in which case the second reading may see nothing at all
	head = bytes.TrimPrefix(head, byteOrder)
	line, _, _ := bytes.Cut(bytes.TrimLeft(head, " \t\r\n"), []byte("\n"))
	line = bytes.TrimSpace(line)
	spec := sink.ByStart(line)
	s.format = spec.Format
	switch {
	case len(line) == 0:
	case spec.Format == sink.WARC:
		return nil, fmt.Errorf("%s is an archive: archives are one collection as they lie, in one directory; merge their indexes (%s)", path, warc.IndexEnding)
	case spec.Separator != 0:
		s.header = string(line)
		if s.columns, err = columnsOf(s.header, spec.Separator); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	case warc.IsIndexLine(line):
		s.format = CDXJ
	case s.format == "":
		return nil, fmt.Errorf("%s has no records of a crawl", path)
	}
	return s, nil
}

type record struct {
	fact
	line []byte // valid until the next one
}

// DamageError is a line that is no record.
type DamageError struct {
	Path string
	Line int64 // from 1
	Err  error // what is wrong with it
}

func (e *DamageError) Error() string {
	return fmt.Sprintf("%s line %d: it is no record: %v", e.Path, e.Line, e.Err)
}

// Unwrap is what is wrong.
func (e *DamageError) Unwrap() error { return e.Err }

type scan struct {
	maxLine int
	parse   bool // facts are wanted; without them lines of the first reading are told apart by bad
	skip    bool // damage is no error
	bad     map[int64]bool
	damaged int64
	cut     bool // the last line or the compressed file was cut off
	read    func(done int64)
}

// each hands every record of the file to take.
func (sc *scan) each(ctx context.Context, s *source, take func(record) error) error {
	if s.format == "" {
		return nil
	}
	r, err := recordfile.Open(s.path, s.size)
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }() // it was only read
	began := false
	err = r.Each(ctx, sc.maxLine, func(l recordfile.Line) error {
		if sc.read != nil && l.Number%4096 == 0 {
			sc.read(r.Done())
		}
		if !began {
			began = true
			l.Text = bytes.TrimPrefix(l.Text, byteOrder)
			if s.header != "" {
				return nil
			}
		}
		if !sc.parse {
			if sc.bad[l.Number] {
				return nil
			}
			return take(record{line: l.Text})
		}
		rec := record{line: l.Text}
		err := rec.parse(s, l)
		if err == nil {
			return take(rec)
		}
		sc.bad[l.Number] = true
		if !l.Whole {
			sc.cut = true // a process was killed as it wrote
			return nil
		}
		if sc.damaged++; !sc.skip {
			return &DamageError{s.path, l.Number, err}
		}
		if len(sc.bad) > maxDamaged {
			return &DamageError{s.path, l.Number, fmt.Errorf("%w; and it is the %dth", err, maxDamaged)}
		}
		return nil
	})
	sc.cut = sc.cut || r.Cut()
	return err
}

// maxDamaged bounds the lines of a file that are passed over: beyond that it is another file.
const maxDamaged = 1 << 20

// parse reads what decides whether the record counts.
func (r *record) parse(s *source, l recordfile.Line) error {
	switch {
	case l.Long:
		return errLong
	case s.format == sink.JSONL:
		return r.parseJSON(l.Text)
	case !l.Whole: // what is there may be half of what was to be
		return errColumns
	case s.header != "":
		return r.parseTable(s.columns, l.Text)
	}
	r.url = string(l.Text)
	if !strings.Contains(r.url, "://") {
		return errNoURL
	}
	return nil
}

type object struct {
	URL       string          `json:"url"`
	Status    int             `json:"status"`
	FetchedAt time.Time       `json:"fetched_at"`
	Attempt   int             `json:"attempt"`
	Error     json.RawMessage `json:"error"`
}

func (r *record) parseJSON(line []byte) error {
	var o object
	if err := json.Unmarshal(line, &o); err != nil {
		return err
	}
	if o.URL == "" {
		return errNoURL
	}
	r.fact = fact{o.URL, o.Status, o.FetchedAt, o.Attempt, len(o.Error) > 0 && string(o.Error) != "null"}
	return nil
}

type columns struct {
	separator                          byte
	n, url, status, at, attempt, class int
}

func columnsOf(header string, separator byte) (columns, error) {
	names := strings.Split(header, string(separator))
	c := columns{separator: separator, n: len(names)}
	var missing []string
	at := func(name string) int {
		i := slices.Index(names, name)
		if i < 0 {
			missing = append(missing, name)
		}
		return i
	}
	c.url, c.status, c.at, c.attempt, c.class = at("url"), at("status"), at("fetched_at"), at("attempt"), at("error_class")
	if len(missing) > 0 {
		return c, fmt.Errorf("its first line has no column %s", strings.Join(missing, ", "))
	}
	return c, nil
}

// parseTable reads one line: no cell that a crawl writes has a line feed in it.
func (r *record) parseTable(c columns, line []byte) (err error) {
	cr := csv.NewReader(bytes.NewReader(line))
	cr.LazyQuotes, cr.Comma = true, rune(c.separator)
	cells, err := cr.Read()
	if err != nil {
		return err
	}
	if len(cells) != c.n {
		return errColumns
	}
	r.fact = fact{url: cells[c.url], failed: cells[c.class] != ""}
	if r.url == "" {
		return errNoURL
	}
	if s := cells[c.status]; s != "" {
		if r.status, err = strconv.Atoi(s); err != nil {
			return fmt.Errorf("status: %w", err)
		}
	}
	if r.at, err = time.Parse(time.RFC3339, cells[c.at]); err != nil {
		return fmt.Errorf("fetched_at: %w", err)
	}
	if r.attempt, err = strconv.Atoi(cells[c.attempt]); err != nil {
		return fmt.Errorf("attempt: %w", err)
	}
	return nil
}
