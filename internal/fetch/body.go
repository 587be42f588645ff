package fetch

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// maxPooled is the size from which on buffers are left to the garbage collector.
	maxPooled = 1 << 20
	// maxHeld bounds all free buffers, in bytes: twice the buffers of single pages that 64 requests in flight and as
	// many in processing need.
	maxHeld = 8 << 20
	// firstRead is the size of a new buffer: half of all pages fit.
	firstRead = 32 << 10
	// wireSlack is how many bytes an encoded body may have beyond the bound of the decoded one.
	wireSlack = 64 << 10
	// The rest of an unwanted body is read, up to maxDrain bytes and for drainTime, to keep its connection. Beyond that
	// a new connection is cheaper.
	maxDrain  = 64 << 10
	drainTime = time.Second
	// maxRatio bounds the decoded size of a body as a multiple of its encoded size. Data of numbers may shrink to a
	// hundredth; brotli and zstd have no bound of their own.
	maxRatio = 1000
	// ratioFree is the number of decoded bytes up to which the ratio is not checked, because the headers of a coding
	// dominate there.
	ratioFree = 1 << 20
	// wantedHead is how much of a body [Request.Wanted] sees, in bytes.
	wantedHead = 8 << 10
	// maxEmptyReads is how often in a row a decoder may return neither bytes nor an error.
	maxEmptyReads = 100
)

type buffer struct{ b []byte }

// sizes is the number of buffer sizes: powers of two from firstRead to maxPooled.
const sizes = 6

// buffers keeps free buffers by size. A sync.Pool would drop them at every second garbage collection.
type buffers struct {
	mu   sync.Mutex // guards what follows
	free [sizes][]*buffer
	held int // bytes in free
}

// sizeOf returns the index of the smallest size with room for n bytes, or of the largest size.
func sizeOf(n int) (size int) {
	for size < sizes-1 && firstRead<<size < n {
		size++
	}
	return size
}

// get returns an empty buffer for about size bytes. The size comes from the server, so it counts only up to maxPooled.
func (p *buffers) get(size int64) *buffer {
	want := sizeOf(int(max(min(size, maxPooled), 0)))
	p.mu.Lock()
	defer p.mu.Unlock()
	for size := want; size < sizes; size++ {
		if len(p.free[size]) > 0 {
			return p.popLocked(size)
		}
	}
	// The capacity is a power of two, so that the next page fits even if it is a little longer.
	return &buffer{make([]byte, 0, firstRead<<want)}
}

func (p *buffers) popLocked(size int) *buffer {
	n := len(p.free[size]) - 1
	buf := p.free[size][n]
	p.free[size] = slices.Delete(p.free[size], n, n+1)
	p.held -= cap(buf.b)
	return buf
}

// put takes a buffer back. It drops larger ones to make room.
func (p *buffers) put(buf *buffer) {
	buf.b = buf.b[:0]
	size := sizeOf(cap(buf.b))
	if cap(buf.b) != firstRead<<size {
		return // not a pooled size: it was made for one page
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for largest := sizes - 1; largest > size && p.held+cap(buf.b) > maxHeld; {
		if len(p.free[largest]) == 0 {
			largest--
			continue
		}
		p.popLocked(largest)
	}
	if p.held+cap(buf.b) <= maxHeld {
		p.free[size] = append(p.free[size], buf)
		p.held += cap(buf.b)
	}
}

// fill reads r into the buffer, up to bound bytes, and reports whether there was more. The length is the one that the
// server announced, or negative.
func (p *buffers) fill(buf *buffer, r io.Reader, length, bound int64) (more bool, err error) {
	for empty := 0; empty < maxEmptyReads; {
		if len(buf.b) == cap(buf.b) {
			p.grow(buf, length, bound)
		}
		room := min(int64(cap(buf.b)), bound+1)
		n, err := r.Read(buf.b[len(buf.b):room])
		buf.b = buf.b[:len(buf.b)+n]
		if int64(len(buf.b)) > bound {
			buf.b = buf.b[:bound]
			return true, nil
		}
		if err == io.EOF {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		if empty++; n > 0 {
			empty = 0
		}
	}
	return false, io.ErrNoProgress
}

// grow doubles the buffer, within bound. A buffer larger than the pooled ones is also kept within the announced length.
func (p *buffers) grow(buf *buffer, length, bound int64) {
	size := min(2*int64(cap(buf.b)), bound+1)
	if exact := length + 1; size > maxPooled && exact > int64(len(buf.b)) {
		size = min(size, exact)
	}
	if size > maxPooled {
		next := make([]byte, len(buf.b), size)
		copy(next, buf.b)
		buf.b = next
		return
	}
	next := p.get(size)
	next.b = append(next.b, buf.b...)
	buf.b, next.b = next.b, buf.b
	p.put(next)
}

// wire reads the encoded body. It counts bytes, remembers network errors, so that they can be told from errors of
// decoders, and restarts the watchdog after each read.
type wire struct {
	body  io.Reader
	x     *exchange
	n     int64 // bytes read
	bound int64
	ended bool  // the body has been read to its end
	err   error // why no more can be read
}

func (w *wire) Read(p []byte) (int, error) {
	switch {
	case w.err != nil:
		return 0, w.err
	case w.ended:
		return 0, io.EOF
	}
	n, err := w.body.Read(p)
	w.n += int64(n)
	switch {
	case err == io.EOF:
		w.ended = true
	case err != nil:
		w.err = err
	case w.n > w.bound:
		w.err = errWireLarge
	default:
		w.x.alive()
		return n, nil
	}
	return n, err
}

type measured struct {
	r    io.Reader
	wire *wire
	n    int64 // bytes decoded
}

func (m *measured) Read(p []byte) (int, error) {
	n, err := m.r.Read(p)
	if m.n += int64(n); m.n > ratioFree && m.n/maxRatio > m.wire.n {
		return n, fmt.Errorf("%w: more than %d times as much", errRatio, maxRatio)
	}
	return n, err
}

// readBody reads the body of hres into res, or passes it to s, and closes it. After an error res has what had arrived.
func (c *Client) readBody(x *exchange, hres *http.Response, res *Response, bound int64, s *Stream) (Op, error) {
	defer hres.Body.Close() //nolint:errcheck // everything of use has been read
	w := &wire{body: hres.Body, x: x, bound: bound + wireSlack}
	if hres.ContentLength != 0 {
		x.alive()
	}
	list, ignored := codings(hres.Header)
	res.IgnoredCodings = strings.Join(ignored, ", ")
	op, err := c.decodeBody(w, list, hres.ContentLength, res, bound, s)
	res.WireBytes = w.n
	if err != nil {
		err = x.explain(err)
	}
	if w.err == nil && !w.ended {
		c.drain(x, hres, w.n)
	}
	return op, err
}

// drain reads the rest of a body to keep its connection, unless too much is announced.
func (c *Client) drain(x *exchange, hres *http.Response, read int64) {
	if hres.Body == http.NoBody || hres.ContentLength-read > maxDrain {
		return
	}
	x.arm(drainTime, c.stalled)
	// The page is complete or broken whatever the rest is.
	_, _ = io.Copy(io.Discard, io.LimitReader(hres.Body, maxDrain))
}

func (c *Client) decodeBody(w *wire, list []string, length int64, res *Response, bound int64, s *Stream) (Op, error) {
	switch {
	case length != 0:
	case s != nil:
		return c.stream(w, nil, res, s)
	default:
		return "", nil
	}
	r, closers, err := c.decoders.open(w, list)
	if err != nil {
		return OpDecode, err
	}
	defer closeAll(closers)
	if len(closers) > 0 {
		r = &measured{r: r, wire: w}
	}
	if s != nil {
		return c.stream(w, r, res, s)
	}
	unwanted := false
	if wanted := w.x.req.Wanted; wanted != nil {
		begin := bufio.NewReaderSize(r, wantedHead)
		head, err := begin.Peek(wantedHead) // the error is that of fill
		if r, unwanted = begin, err == nil && !wanted(res, head); unwanted {
			bound = wantedHead
		}
	}
	res.c, res.buf = c, c.buffers.get(min(length, bound)+1)
	more, err := c.buffers.fill(res.buf, r, length, bound)
	res.Body = res.buf.b
	switch {
	case unwanted:
		res.Truncated = true
	case more:
		res.Truncated = true
		return OpBody, errTooLarge
	case w.err != nil:
		res.Truncated = true
		return OpBody, w.err
	case errors.Is(err, errRatio):
		res.Truncated = true
		return OpBody, err
	case err != nil:
		return OpDecode, err
	}
	return "", nil
}
