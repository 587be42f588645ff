package merge

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"os"
	"slices"
	"time"

	"github.com/cespare/xxhash/v2"
)

type class uint8

// The classes.
const (
	noRequest     class = iota // no request was made, as robots.txt refuses it
	noResponse                 // there was no answer
	serverTrouble              // an answer that is trouble of the server, or is not whole
	answered                   // a whole answer that says something of the page: it is not there
	success                    // the page
)

// fact is what of a record decides whether it counts.
type fact struct {
	URL       string          `json:"url"`
	Status    int             `json:"status"`
	FetchedAt time.Time       `json:"fetched_at"`
	Attempt   int             `json:"attempt"`
	Error     json.RawMessage `json:"error"`
	failed    bool            // it has an error
}

func (f *fact) class() class {
	switch s := f.Status; {
	case s == 0 && f.Attempt == 0:
		return noRequest
	case s == 0:
		return noResponse
	case f.failed || s >= 500 || s == 408 || s == 425 || s == 429:
		return serverTrouble
	case s >= 400:
		return answered
	}
	return success
}

type entry struct {
	key     [2]uint64 // of its URL
	rank    uint64    // class, then tries
	at      int64     // Unix milliseconds
	sum     uint64    // of the line
	ordinal uint64    // among all records of all files
}

// entrySize is the size of an entry on disk, in bytes; in memory it is the same.
const entrySize = 48

// keys are two hash functions that nobody outside knows, so that nobody can make URLs that hash alike.
type keys [2]maphash.Seed

// entry notes a record. The hash of its line must be the same in every run, as it decides which of two records counts
// that are alike in all else.
func (k *keys) entry(f *fact, line []byte, ordinal uint64, newest bool) entry {
	e := entry{
		key: [2]uint64{maphash.String(k[0], f.URL), maphash.String(k[1], f.URL)},
		sum: xxhash.Sum64(line), ordinal: ordinal, rank: uint64(min(max(f.Attempt, 0), 1<<32-1)),
	}
	if !f.FetchedAt.IsZero() {
		e.at = f.FetchedAt.UnixMilli()
	}
	if !newest {
		e.rank |= uint64(f.class()) << 32
	}
	return e
}

// compare orders entries by their URLs, and for one URL the one that counts first.
func compare(a, b entry) int {
	return cmp.Or(
		cmp.Compare(a.key[0], b.key[0]), cmp.Compare(a.key[1], b.key[1]),
		cmp.Compare(b.rank>>32, a.rank>>32), cmp.Compare(b.at, a.at), cmp.Compare(b.rank, a.rank),
		cmp.Compare(b.sum, a.sum), cmp.Compare(a.ordinal, b.ordinal),
	)
}

// leastEntries is how many are sorted in memory whatever the bound: fewer make more runs than can be open at once
// with buffers worth having.
const leastEntries = 64

// runBuffer is what is read or written of a run at a time, in bytes.
const runBuffer = 64 << 10

// sorter sorts entries in bounded memory. Those that have no room go to a file that nobody sees, in runs that are
// sorted.
type sorter struct {
	room int
	dir  string // of the file

	held []entry
	file *os.File // nil: all are in memory
	runs []int64  // where in the file each begins, and the last one ends
}

// newSorter has room in memory at once for as many as are expected: a slice that grows to that is for a while there
// twice.
func newSorter(memory int64, dir string, expected int64) *sorter {
	room := max(memory/entrySize, leastEntries)
	return &sorter{room: int(room), dir: dir, held: make([]entry, 0, min(room, expected))}
}

func (s *sorter) add(e entry) error {
	if len(s.held) == s.room {
		if err := s.spill(); err != nil {
			return err
		}
	}
	s.held = append(s.held, e)
	return nil
}

func (s *sorter) spill() (err error) {
	if s.file == nil {
		if s.file, err = os.CreateTemp(s.dir, "crawl-merge-*.tmp"); err != nil {
			return err
		}
		s.runs = []int64{0}
		// Without a name it is gone with us, however we end. Where that cannot be, close removes it.
		_ = os.Remove(s.file.Name())
	}
	slices.SortFunc(s.held, compare)
	w := bufio.NewWriterSize(s.file, runBuffer)
	var line [entrySize]byte
	for _, e := range s.held {
		words := line[:0]
		for _, w := range [...]uint64{e.key[0], e.key[1], e.rank, uint64(e.at), e.sum, e.ordinal} {
			words = binary.LittleEndian.AppendUint64(words, w)
		}
		if _, err := w.Write(words); err != nil {
			return fmt.Errorf("sort: %w", err)
		}
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("sort: %w", err)
	}
	s.runs = append(s.runs, s.runs[len(s.runs)-1]+entrySize*int64(len(s.held)))
	s.held = s.held[:0]
	return nil
}

// each hands all entries out in order. Nothing can be added afterwards.
func (s *sorter) each(take func(entry)) error {
	if s.file == nil {
		slices.SortFunc(s.held, compare)
		for _, e := range s.held {
			take(e)
		}
		return nil
	}
	if err := s.spill(); err != nil {
		return err
	}
	s.held = nil
	runs := make([]*run, len(s.runs)-1)
	for i := range runs {
		size := s.runs[i+1] - s.runs[i]
		runs[i] = &run{r: bufio.NewReaderSize(io.NewSectionReader(s.file, s.runs[i], size), int(min(size, runBuffer)))}
	}
	return inOrder(runs, func(a, b *run) int { return compare(a.head, b.head) }, func(r *run) error {
		take(r.head)
		return nil
	})
}

func (s *sorter) close() {
	if s.file != nil {
		_ = s.file.Close()
		_ = os.Remove(s.file.Name()) // mostly it is gone
	}
}

type run struct {
	r    *bufio.Reader
	head entry
}

func (r *run) next() (more bool, err error) {
	var line [entrySize]byte
	if _, err := io.ReadFull(r.r, line[:]); err != nil {
		if errors.Is(err, io.EOF) {
			return false, nil
		}
		return false, fmt.Errorf("sort: %w", err)
	}
	word := func(i int) uint64 { return binary.LittleEndian.Uint64(line[8*i:]) }
	r.head = entry{[2]uint64{word(0), word(1)}, word(2), int64(word(3)), word(4), word(5)}
	return true, nil
}

// inOrder hands sorted sources out as often as they have a next item, that with the least first.
func inOrder[S interface{ next() (bool, error) }](sources []S, compare func(a, b S) int, take func(S) error) error {
	var open []S // sorted: they are few
	advance := func(s S) error {
		more, err := s.next()
		if more {
			at, _ := slices.BinarySearchFunc(open, s, compare)
			open = slices.Insert(open, at, s)
		}
		return err
	}
	for _, s := range sources {
		if err := advance(s); err != nil {
			return err
		}
	}
	for len(open) > 0 {
		least := open[0]
		if err := take(least); err != nil {
			return err
		}
		open = slices.Delete(open, 0, 1)
		if err := advance(least); err != nil {
			return err
		}
	}
	return nil
}
