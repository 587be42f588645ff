// Package merge merges the records of several files into one file that has each URL once.
//
// Each process of a fleet writes a file of its own. If a process is killed after it has written a record and before the
// URL counts as done, another process fetches the URL again: every URL is fetched at least once. So a URL may have
// several records, and this package selects one of them.
//
// # Which record counts
//
// Of the records of a URL, the one of the highest class counts. From highest to lowest the classes are: success (a
// whole response of 2xx or 3xx); another whole response that says something about the page (4xx except 408, 425 and
// 429); a response that shows trouble of the server or is not whole; a request without a response; no request. Within a
// class, the one that was sent last counts; at the same time, the one with more attempts; then the one whose line has
// the larger hash. [Config.Newest] ignores the class. In a list of URLs all records are equal.
//
// # Properties
//
// Which records the result has does not depend on the order of the files, nor on how they were merged before: merging
// is commutative, associative and idempotent. Lines are copied byte by byte, in the order of the files and of the lines
// in them, so merging a result again gives the same file.
//
// # Method
//
// Files are read twice. The first reading keeps 48 bytes of each record, with its URL as two hashes under keys of this
// run. It sorts them in memory or, beyond [Config.Memory], in runs on disk, and keeps one bit per record: whether it
// counts. The second reading copies the records that count. The probability that two of n URLs are confused is n² in
// 2¹²⁹. In indexes of archives (CDXJ) every capture stays.
//
// Functions may be called by several goroutines at once, with different outputs.
package merge

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io"

	"github.com/treadlight/crawl/internal/records/recordfile"
	"github.com/treadlight/crawl/internal/records/sink"
)

// Config configures how records are merged. The zero Config is ready to use.
type Config struct {
	// Newest selects the record that was sent last, whatever it says. This is for rounds of a crawl, of which the last
	// one knows what is gone. False: see the package comment.
	Newest bool
	// SkipDamaged skips lines that are no records, up to 1,048,576 per file, and counts them. False makes the first
	// such line an error. The last line of a file is always skipped if it is cut off.
	SkipDamaged bool
	// Memory bounds the memory of sorting, in bytes. Zero means 64 MiB.
	Memory int64
	// TempDir is the directory for what exceeds Memory. Empty means the system's directory for temporary files.
	TempDir string
	// MaxLine is the longest line, in bytes. Zero means 256 MiB.
	MaxLine int
	// Progress, if set, is called now and then with how many bytes of how many were read, in both readings together.
	Progress func(done, total int64)
}

// Report says what a merge has done.
type Report struct {
	Format  sink.Format `json:"format"`
	Files   int         `json:"files"`
	Read    int64       `json:"read"`              // records that were read
	Written int64       `json:"written"`           // records that were written, each of another URL
	Damaged int64       `json:"damaged,omitempty"` // lines that were skipped
	Cut     []string    `json:"cut,omitempty"`     // files whose ends are cut off
}

// Merged holds files whose first reading is done. It must not be used by several goroutines at once.
type Merged struct {
	cfg     Config
	report  Report
	sources []*source
	header  []byte   // header line of tables; empty for other formats
	counts  []uint64 // one bit per record: whether it counts
	total   int64    // bytes of both readings
}

// ErrNothing is the error if no file has a record.
var ErrNothing = errors.New("there are no records in any of the files")

// Prepare reads the files for the first time. If it succeeds, nothing is wrong with their contents, so that the output
// can be opened. The files must be regular ones, all of the same format. The error is a [*DamageError], [ErrNothing],
// that of ctx, or one of the file system.
func Prepare(ctx context.Context, files []string, cfg Config) (*Merged, error) {
	cfg.Memory = cmp.Or(cfg.Memory, 64<<20)
	m := &Merged{cfg: cfg}
	if err := m.open(files); err != nil {
		return nil, err
	}
	if m.report.Format == CDXJ {
		return m, nil
	}
	if err := m.firstReading(ctx); err != nil {
		return nil, err
	}
	if m.report.Read == 0 {
		return nil, ErrNothing
	}
	return m, nil
}

func (m *Merged) open(files []string) error {
	var like *source
	for _, path := range files {
		s, err := open(path)
		if err != nil {
			return err
		}
		switch {
		case s.format == "":
		case like == nil:
			like = s
		case s.format != like.format:
			return fmt.Errorf("%s is %s and %s is %s: merge files of one format", like.path, like.format, s.path, s.format)
		case !bytes.Equal(s.header, like.header):
			return fmt.Errorf("%s and %s have other columns, as of two versions of the program: merge JSON lines, or give one of them new columns", like.path, s.path)
		}
		m.sources = append(m.sources, s)
		m.total += 2 * s.size
	}
	if like == nil {
		return ErrNothing
	}
	m.report.Format, m.report.Files, m.header = like.format, len(files), like.header
	return nil
}

// usualLine is the size of a line without links, in bytes. It serves to guess how many lines there are.
const usualLine = 400

func (m *Merged) firstReading(ctx context.Context) error {
	sorted := newSorter(m.cfg.Memory, m.cfg.TempDir, m.total/2/usualLine)
	defer sorted.close()
	k := keys{maphash.MakeSeed(), maphash.MakeSeed()}
	var ordinal uint64
	var before int64
	for _, s := range m.sources {
		err := m.each(ctx, s, before, func(l recordfile.Line) error {
			f, err := s.parse(l)
			if err != nil {
				return s.pass(l, err, m.cfg.SkipDamaged)
			}
			e := k.entry(&f, l.Text, ordinal, m.cfg.Newest)
			ordinal++
			return sorted.add(e)
		})
		if err != nil {
			return err
		}
		before += s.size
		m.report.Damaged += s.damaged
		if s.cut {
			m.report.Cut = append(m.report.Cut, s.path)
		}
	}
	m.report.Read = int64(ordinal)
	m.counts = make([]uint64, (ordinal+63)/64)
	var last entry
	return sorted.each(func(e entry) {
		if m.report.Written == 0 || e.key != last.key {
			m.counts[e.ordinal/64] |= 1 << (e.ordinal % 64)
			m.report.Written++
			last = e
		}
	})
}

// each calls take with the lines of a file, without the header of a table. before is how many bytes were read before
// the file.
func (m *Merged) each(ctx context.Context, s *source, before int64, take func(recordfile.Line) error) error {
	if s.format == "" {
		return nil
	}
	r, err := recordfile.Open(s.path, s.size)
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }() // it was only read
	began := s.table == nil
	err = r.Each(ctx, m.cfg.MaxLine, func(l recordfile.Line) error {
		if m.cfg.Progress != nil && l.Number%4096 == 0 {
			m.cfg.Progress(before+r.Done(), m.total)
		}
		if !began {
			began = true
			return nil
		}
		return take(l)
	})
	s.cut = s.cut || r.Cut()
	return err
}

// Report returns what the merge has read and written so far. For records it is complete when Prepare has returned, for
// an index when Write has.
func (m *Merged) Report() Report { return m.report }

// Write reads the files for the second time and writes the records that count to w; CSV gets a header line. The error
// is that of w, of ctx or of the file system; the output is then incomplete.
func (m *Merged) Write(ctx context.Context, w io.Writer) error {
	out := bufio.NewWriterSize(w, 64<<10)
	if m.report.Format == CDXJ {
		if err := m.writeIndex(ctx, out); err != nil {
			return err
		}
		return out.Flush()
	}
	var ordinal uint64
	before := m.total / 2
	if len(m.header) > 0 {
		_, _ = out.Write(append(m.header, '\n')) // Flush returns the error
	}
	for _, s := range m.sources {
		err := m.each(ctx, s, before, func(l recordfile.Line) error {
			if s.bad[l.Number] {
				return nil
			}
			if ordinal >= uint64(m.report.Read) {
				return fmt.Errorf("%s was changed while it was read: merge again", s.path)
			}
			counts := m.counts[ordinal/64]>>(ordinal%64)&1 == 1
			ordinal++
			if !counts {
				return nil
			}
			_, err := out.Write(append(l.Text, '\n'))
			return err
		})
		if err != nil {
			return err
		}
		before += s.size
	}
	if ordinal != uint64(m.report.Read) {
		return errors.New("a file was changed while it was read: merge again")
	}
	return out.Flush()
}
