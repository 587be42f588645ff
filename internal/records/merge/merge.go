// Package merge makes one file of the records of several, in which each URL is once.
//
// The processes of a fleet write a file each, and a URL whose process was killed behind its record is fetched again
// by another one: at least once, and never less. So a URL may have several records, which this package makes one of.
//
// # Which record counts
//
// Of the records of a URL the one of the highest class counts: a success (a whole answer of 2xx or 3xx), another
// whole answer that says something of the page (4xx but 408, 425 and 429), an answer that is trouble of the server or
// not whole, a request without an answer, no request at all. Of one class the one that was sent last, of one time the
// one with more tries before it, and of those the one whose line has the larger hash. [Config.Newest] leaves the
// class out. In a list of URLs all are the same.
//
// # The laws
//
// Which records a merge has does not depend on the order of the files, nor on how they were merged before: it
// commutes, associates and is idempotent. Lines are copied byte by byte, in the order of the files and of the lines
// in them, so a merge merged again is the same file.
//
// # How
//
// Files are read twice. The first reading notes 48 bytes of each record, its URL as two hashes under keys of this
// run, sorts them in memory or, beyond [Config.Memory], in runs on disk, and keeps a bit of each record: it is the
// one that counts. The second copies these. Two URLs are taken for one with a probability of n² in 2¹²⁹. Of indexes
// of archives (CDXJ) every capture stays.
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

// Config says how records are merged. The zero Config is ready to use.
type Config struct {
	// Newest has the record that was sent last count, whatever it says: for rounds of a crawl, of which the last one
	// knows what is gone. False: see the package comment.
	Newest bool
	// SkipDamaged passes over lines that are no records, up to 1,048,576 of each file, and counts them. False: the
	// first is an error. The last line of a file, if it is cut off, is always passed over.
	SkipDamaged bool
	// Memory bounds what is sorted at a time, in bytes. Zero means 64 MiB.
	Memory int64
	// TempDir is where the rest goes. Empty: the system's directory for such files.
	TempDir string
	// MaxLine is the longest line, in bytes. Zero means 256 MiB.
	MaxLine int
	// Progress, if set, is told now and then how many bytes of how many were read, of both readings together.
	Progress func(done, total int64)
}

// Report is what a merge did.
type Report struct {
	Format  sink.Format `json:"format"`
	Files   int         `json:"files"`
	Read    int64       `json:"read"`              // records
	Written int64       `json:"written"`           // of them, each of another URL
	Damaged int64       `json:"damaged,omitempty"` // lines that were passed over
	Cut     []string    `json:"cut,omitempty"`     // files whose ends are cut off
}

// Merged is records whose first reading is done.
type Merged struct {
	cfg     Config
	report  Report
	sources []*source
	counts  []uint64 // a bit for each record: it counts
	total   int64    // bytes of both readings
}

// ErrNothing is returned if no file has a record.
var ErrNothing = errors.New("there are no records in any of the files")

// Prepare reads the files for the first time: afterwards nothing can be wrong with them any more, and an output may
// be begun. Files are regular ones, all of one format; errors are a [*DamageError], [ErrNothing], ctx's, or one of
// the file system.
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
	m.report.Format, m.report.Files = like.format, len(files)
	return nil
}

// usualLine is a line without links, in bytes: a guess of how many there are.
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

// each hands the lines of a file to take, but for the header of a table; before says how many bytes were read before
// it.
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

// Report is what the merge has, as far as it has been read: of records once Prepare has returned, of an index once
// Write has.
func (m *Merged) Report() Report { return m.report }

// Write reads the files for the second time and writes the records that count to w, CSV with a header line. An error
// is w's, ctx's or the file system's; what was written then is not whole.
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
	header := false
	for _, s := range m.sources {
		if len(s.header) > 0 && !header {
			header = true
			if _, err := out.Write(append(s.header, '\n')); err != nil {
				return err
			}
		}
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
