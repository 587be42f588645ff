package merge

import (
	"bufio"
	"container/heap"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
)

// leastEntries is how many are sorted in memory whatever the bound: fewer make more runs than
// can be open at once with buffers worth having.
const leastEntries = 64

// runBuffer is what is read or written of a run at a time, in bytes.
const runBuffer = 64 << 10

// sorter sorts entries in bounded memory. Those that have no room go to a file that nobody
// sees, in runs that are sorted.
type sorter struct {
	room int
	dir  string // of the file

	held []entry
	file *os.File // nil: all are in memory
	runs []int64  // where in the file each begins, and the last one ends
}

// newSorter has room in memory at once for as many as are expected: a slice that grows to
// that is for a while there twice.
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

// spill makes a run of what is held.
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
	for i := range s.held {
		if _, err := w.Write(s.held[i].append(line[:0])); err != nil {
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
	var h runHeap
	for i := range len(s.runs) - 1 {
		size := s.runs[i+1] - s.runs[i]
		r := &run{r: bufio.NewReaderSize(io.NewSectionReader(s.file, s.runs[i], size), int(min(size, runBuffer)))}
		switch more, err := r.next(); {
		case err != nil:
			return err
		case more:
			h = append(h, r)
		}
	}
	heap.Init(&h)
	for len(h) > 0 {
		take(h[0].head)
		switch more, err := h[0].next(); {
		case err != nil:
			return err
		case more:
			heap.Fix(&h, 0)
		default:
			heap.Pop(&h)
		}
	}
	return nil
}

func (s *sorter) close() {
	if s.file != nil {
		_ = s.file.Close()
		_ = os.Remove(s.file.Name()) // mostly it is gone
	}
}

// run is one that is being read.
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
	r.head.decode(line[:])
	return true, nil
}

// runHeap has the run with the least entry first.
type runHeap []*run

func (h runHeap) Len() int           { return len(h) }
func (h runHeap) Less(i, j int) bool { return compare(h[i].head, h[j].head) < 0 }
func (h runHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *runHeap) Push(x any)        { *h = append(*h, x.(*run)) }
func (h *runHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}
