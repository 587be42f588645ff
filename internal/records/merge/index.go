package merge

import (
	"bufio"
	"bytes"
	"container/heap"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/treadlight/crawl/internal/records/recordfile"
	"github.com/treadlight/crawl/internal/records/sink/warc"
)

// maxIndexes bounds the indexes that are read at a time, each with a file and a buffer.
const maxIndexes = 500

var (
	errNoIndex  = errors.New("it is no line of an index")
	errUnsorted = errors.New("it belongs above the line before it: sort the file bytewise, by 'LC_ALL=C sort'")
)

// writeIndex merges indexes of archives, which are sorted, into one that is, without lines that
// are there twice. Every capture stays: a reader of archives picks one by its time.
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
	h := minHeap[*index]{less: func(a, b *index) bool { return bytes.Compare(a.line, b.line) < 0 }}
	for _, s := range m.sources {
		r, err := recordfile.Open(s.path, s.size)
		if err != nil {
			return err
		}
		x := &index{path: s.path, r: r, maxLine: m.cfg.MaxLine, cut: s.cut}
		all = append(all, x)
		more, err := x.next()
		if err != nil {
			return err
		}
		if more {
			h.items = append(h.items, x)
		}
	}
	heap.Init(&h)
	var last []byte
	for h.Len() > 0 {
		x := h.items[0]
		if m.report.Read++; m.report.Read%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if m.report.Written == 0 || !bytes.Equal(last, x.line) {
			last = append(last[:0], x.line...)
			if _, err := out.Write(append(x.line, '\n')); err != nil {
				return err
			}
			m.report.Written++
		}
		switch more, err := x.next(); {
		case err != nil:
			return err
		case more:
			heap.Fix(&h, 0)
		default:
			heap.Pop(&h)
		}
		if m.report.Read%4096 == 0 && m.cfg.Progress != nil {
			var done int64
			for _, x := range all {
				done += x.r.Done()
			}
			m.cfg.Progress(done, m.total/2) // they are read once
		}
	}
	for _, x := range all {
		if x.cut {
			m.report.Cut = append(m.report.Cut, x.path)
		}
	}
	return nil
}

type index struct {
	path    string
	r       *recordfile.Reader
	maxLine int
	line    []byte
	cut     bool
}

func (x *index) next() (more bool, err error) {
	l, err := x.r.Next(x.maxLine)
	if errors.Is(err, io.EOF) {
		x.cut = x.cut || x.r.Cut()
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if l.Long || !warc.IsIndexLine(l.Text) || l.Text[len(l.Text)-1] != '}' {
		if !l.Whole {
			x.cut = true
			return false, nil
		}
		return false, &DamageError{x.path, l.Number, errNoIndex}
	}
	if bytes.Compare(x.line, l.Text) > 0 {
		return false, &DamageError{x.path, l.Number, errUnsorted}
	}
	x.line = append(x.line[:0], l.Text...)
	return true, nil
}
