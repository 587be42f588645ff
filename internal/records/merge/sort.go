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
	noRequest     class = iota // no request was made, as robots.txt forbids it
	noResponse                 // there was no response
	serverTrouble              // a response that shows trouble of the server, or is not whole
	answered                   // a whole response that says something about the page, such as that it does not exist
	success                    // the page
)

// fact is the part of a record that decides whether it counts.
type fact struct {
	URL       string          `json:"url"`
	Status    int             `json:"status"`
	FetchedAt time.Time       `json:"fetched_at"`
	Attempt   int             `json:"attempt"`
	Error     json.RawMessage `json:"error"`
	failed    bool            // the record has an error
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
	key     [2]uint64 // hashes of the URL
	rank    uint64    // class in the upper half, attempts in the lower half
	at      int64     // Unix milliseconds
	sum     uint64    // hash of the line
	ordinal uint64    // number of the record among all records of all files
}

// entrySize is the size of an entry in bytes, on disk and in memory.
const entrySize = 48

// keys are two hash functions that nobody outside can know, so that nobody can construct URLs with equal hashes.
type keys [2]maphash.Seed

// entry makes the entry of a record. The hash of the line must be the same in every run, as it decides which of two
// records counts that are equal in everything else.
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

// compare orders entries by URL; of one URL the entry that counts comes first.
func compare(a, b entry) int {
	return cmp.Or(
		cmp.Compare(a.key[0], b.key[0]), cmp.Compare(a.key[1], b.key[1]),
		cmp.Compare(b.rank>>32, a.rank>>32), cmp.Compare(b.at, a.at), cmp.Compare(b.rank, a.rank),
		cmp.Compare(b.sum, a.sum), cmp.Compare(a.ordinal, b.ordinal),
	)
}

// leastEntries is the least number of entries sorted in memory, whatever the bound. Fewer would make more runs than can
// be open at once with buffers of useful size.
const leastEntries = 64

// runBuffer is how many bytes of a run are read or written at a time.
const runBuffer = 64 << 10

// sorter sorts entries in bounded memory. Entries beyond the bound go to an unnamed file, in sorted runs.
type sorter struct {
	room int
	dir  string // directory of the file

	held []entry
	file *os.File // nil means that all entries are in memory
	runs []int64  // where in the file each run begins, and where the last one ends
}

// newSorter allocates memory for the expected number of entries at once: a slice that grows would take twice the memory
// for a while.
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
		// Without a name the file vanishes with the process, however that ends. Where this fails, close removes it.
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

// each calls take with all entries in order. Nothing can be added afterwards.
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
		_ = os.Remove(s.file.Name()) // usually it is removed already
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

// inOrder merges sorted sources: it calls take with the source that has the least item, as long as there is one.
func inOrder[S interface{ next() (bool, error) }](sources []S, compare func(a, b S) int, take func(S) error) error {
	var open []S // sorted; there are few
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
