package merge

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/treadlight/crawl/internal/records/recordfile"
	"github.com/treadlight/crawl/internal/records/sink"
	"github.com/treadlight/crawl/internal/records/sink/warc"
)

// CDXJ is the format of an index of archives. Package sink has the formats of records.
const CDXJ sink.Format = "cdxj"

const (
	maxDamaged = 1 << 20 // damaged lines that are skipped per file; a file with more is not what it seems
	maxIndexes = 500     // indexes that are read at the same time, each with an open file and a buffer
)

var (
	packed      = []string{"", ".gz", ".zst"} // endings of compression, behind that of the format
	errNoIndex  = errors.New("it is no line of an index")
	errUnsorted = errors.New("it belongs above the line before it: sort the file bytewise, by 'LC_ALL=C sort'")
)

// Files returns the files that paths name, each once. A directory stands for the files of records in it, by the endings
// of their names, or if it has none for its indexes of archives; its subdirectories are ignored.
func Files(paths []string) ([]string, error) {
	var files []string
	var infos []os.FileInfo
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		inside := []string{path}
		if info.IsDir() {
			if inside, err = filesIn(path); err != nil {
				return nil, err
			}
		}
		for _, file := range inside {
			if info, err = os.Stat(file); err != nil {
				return nil, err
			}
			// It may be given twice, for example by a directory and a file in it.
			if !slices.ContainsFunc(infos, func(other os.FileInfo) bool { return os.SameFile(info, other) }) {
				files, infos = append(files, file), append(infos, info)
			}
		}
	}
	return files, nil
}

func filesIn(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var records, indexes []string
	below := ""
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if e.IsDir() {
			below = path
			continue
		}
		for _, p := range packed {
			bare, ok := strings.CutSuffix(path, p)
			ending := filepath.Ext(bare)
			spec := sink.ByEnding(ending)
			switch {
			case !ok:
			case spec.Lines() && spec.Ending() == ending:
				records = append(records, path)
			case ending == warc.IndexEnding:
				indexes = append(indexes, path)
			}
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
	format  sink.Format // empty means that the file has no content
	header  []byte      // header line of a table
	table   *recordfile.Table
	size    int64          // bytes that are read, as stored
	bad     map[int64]bool // numbers of the lines to skip
	damaged int64          // how many of them are whole
	cut     bool           // the last line, or the compressed file, was cut off
}

func open(path string) (*source, error) {
	r, err := recordfile.Open(path, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }() // it was only read
	s := &source{path: path, size: r.Size, bad: make(map[int64]bool)}
	if !r.Regular {
		return nil, fmt.Errorf("%s is a pipe or a device, and files are read twice: give a file", path)
	}
	head, err := r.Peek(min(64<<10, r.Reader.Size()))
	s.cut = recordfile.CutOff(err) // the second reading may then see no line at all
	line, _, _ := bytes.Cut(bytes.TrimLeft(head, " \t\r\n"), []byte("\n"))
	line = bytes.TrimSpace(line)
	spec := sink.ByStart(line)
	s.format = spec.Format
	switch {
	case len(line) == 0:
	case spec.Format == sink.WARC:
		return nil, fmt.Errorf("%s is an archive: archives are one collection as they lie, in one directory; merge their indexes (%s)", path, warc.IndexEnding)
	case spec.Separator != 0:
		s.header = bytes.Clone(line)
		s.table, err = recordfile.NewTable(line, spec.Separator, "url", "status", "fetched_at", "attempt", "error_class")
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	case warc.IsIndexLine(line):
		s.format = CDXJ
	case s.format == "":
		return nil, fmt.Errorf("%s has no records of a crawl", path)
	}
	return s, nil
}

// DamageError is the error about a line that is no record.
type DamageError struct {
	Path string
	Line int64 // from 1
	Err  error // what is wrong with it
}

func (e *DamageError) Error() string {
	return fmt.Sprintf("%s line %d: it is no record: %v", e.Path, e.Line, e.Err)
}

func (e *DamageError) Unwrap() error { return e.Err }

// pass records a line that is no record, to be skipped. It returns an error if such a line must not be skipped.
func (s *source) pass(l recordfile.Line, err error, skip bool) error {
	s.bad[l.Number] = true
	if !l.Whole {
		s.cut = true // a process was killed while it wrote the line
		return nil
	}
	if s.damaged++; !skip {
		return &DamageError{s.path, l.Number, err}
	}
	if len(s.bad) > maxDamaged {
		return &DamageError{s.path, l.Number, fmt.Errorf("%w; and it is the %dth", err, maxDamaged)}
	}
	return nil
}

// parse reads what decides whether a record counts. A line of a text format that is cut off is an error, as its content
// may be incomplete.
func (s *source) parse(l recordfile.Line) (f fact, err error) {
	switch {
	case s.format != sink.JSONL && !l.Whole && !l.Long:
		return f, recordfile.ErrColumns
	case s.format == sink.JSONL || s.table != nil || l.Long:
		err = recordfile.Decode(l, s.table, &f, func() {
			t := s.table
			f = fact{URL: t.Text("url"), Status: int(t.Number("status")), FetchedAt: t.Time(), Attempt: int(t.Number("attempt"))}
			f.failed = t.Text("error_class") != ""
		})
		f.failed = f.failed || len(f.Error) > 0 && string(f.Error) != "null"
	case bytes.Contains(l.Text, []byte("://")):
		f.URL = string(l.Text)
	}
	if err == nil && f.URL == "" {
		err = recordfile.ErrNoURL
	}
	return f, err
}

// writeIndex merges sorted indexes of archives into one sorted index, without duplicate lines. Every capture stays: a
// reader of archives selects one by its time.
func (m *Merged) writeIndex(ctx context.Context, out *bufio.Writer) error {
	if len(m.sources) > maxIndexes {
		return fmt.Errorf("%d indexes are more than the %d that can be merged at once: merge parts of them, and then these", len(m.sources), maxIndexes)
	}
	m.report.Read, m.report.Written, m.report.Cut = 0, 0, nil
	var all []*index
	defer func() {
		for _, x := range all {
			_ = x.r.Close() // it was only read
		}
	}()
	for _, s := range m.sources {
		r, err := recordfile.Open(s.path, s.size)
		if err != nil {
			return err
		}
		all = append(all, &index{path: s.path, r: r, maxLine: m.cfg.MaxLine, cut: s.cut})
	}
	var last []byte
	err := inOrder(all, func(a, b *index) int { return bytes.Compare(a.line, b.line) }, func(x *index) error {
		if m.report.Read++; m.report.Read%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if m.report.Read%4096 == 0 && m.cfg.Progress != nil {
			var done int64
			for _, x := range all {
				done += x.r.Done()
			}
			m.cfg.Progress(done, m.total/2) // indexes are read only once
		}
		if m.report.Written > 0 && bytes.Equal(last, x.line) {
			return nil
		}
		m.report.Written++
		last = append(last[:0], x.line...)
		_, err := out.Write(append(x.line, '\n'))
		return err
	})
	for _, x := range all {
		if x.cut {
			m.report.Cut = append(m.report.Cut, x.path)
		}
	}
	return err
}

type index struct {
	path    string
	r       *recordfile.Reader
	maxLine int
	line    []byte
	cut     bool // the last line, or the compressed file, is cut off
}

func (x *index) next() (more bool, err error) {
	l, err := x.r.Next(x.maxLine)
	switch {
	case errors.Is(err, io.EOF):
		x.cut = x.cut || x.r.Cut()
		return false, nil
	case err != nil:
		return false, err
	case l.Long || !warc.IsIndexLine(l.Text) || l.Text[len(l.Text)-1] != '}':
		if !l.Whole {
			x.cut = true
			return false, nil
		}
		return false, &DamageError{x.path, l.Number, errNoIndex}
	case bytes.Compare(x.line, l.Text) > 0:
		return false, &DamageError{x.path, l.Number, errUnsorted}
	}
	x.line = append(x.line[:0], l.Text...)
	return true, nil
}
