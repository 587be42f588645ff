package sitemap

import (
	"bytes"
	"io"
)

const (
	// maxToken is the longest text or tag that is read: eight times the longest URL.
	maxToken = 64 << 10
	// windowSize has room for the longest token and another read.
	windowSize = 2 * maxToken
)

// window is the part of a document in memory. What its methods return is valid until the next
// call.
type window struct {
	buf  []byte            // what comes next; the end of all
	all  []byte            // what is in memory
	src  io.Reader         // the rest of the document; nil if there is none
	past int               // line ends before all
	used int               // bytes skipped
	left int64             // bytes that may still be read from src
	cut  bool              // the limit was reached
	err  error             // of src
	raw  *io.LimitedReader // the input of src if it decodes; else nil
}

func (w *window) line() int {
	return 1 + w.past + bytes.Count(w.all[:len(w.all)-len(w.buf)], []byte("\n"))
}

// more reads more of the document, and reports whether there was any.
func (w *window) more() bool {
	if w.src == nil {
		return false
	}
	w.past += bytes.Count(w.all[:len(w.all)-len(w.buf)], []byte("\n"))
	if cap(w.all) < windowSize {
		w.all = append(make([]byte, 0, windowSize), w.buf...)
	} else {
		w.all = w.all[:copy(w.all[:windowSize], w.buf)]
	}
	n := len(w.all)
	for w.src != nil && len(w.all) == n {
		room := w.all[n:windowSize]
		m, err := w.src.Read(room)
		w.left -= int64(m)
		if w.left < 0 {
			m += int(w.left)
			w.cut, err = true, io.EOF
		}
		w.all = w.all[:n+m]
		if err != nil {
			w.src, w.cut = nil, w.cut || w.raw != nil && w.raw.N <= 0
			if err != io.EOF {
				w.err = err
			}
		}
	}
	w.buf = w.all
	return len(w.all) > n
}

// peek is the next n bytes, or fewer at the end.
func (w *window) peek(n int) []byte {
	for len(w.buf) < n && w.more() {
	}
	return w.buf[:min(n, len(w.buf))]
}

// skip passes over n bytes that were peeked at.
func (w *window) skip(n int) { w.buf, w.used = w.buf[n:], w.used+n }

// through skips up to and including delim and returns what came before it, or nil if that is
// longer than maxToken. If delim does not come it is not ok, and returns all that is left.
func (w *window) through(delim string) (content []byte, ok bool) {
	from, long := 0, false
	for {
		if i := bytes.Index(w.buf[from:], []byte(delim)); i >= 0 {
			content, ok = w.buf[:from+i], true
			w.skip(from + i + len(delim))
			break
		}
		if from = max(0, len(w.buf)-len(delim)+1); from > maxToken {
			w.skip(from)
			from, long = 0, true
		}
		if !w.more() {
			content = w.buf
			w.skip(len(w.buf))
			break
		}
	}
	if long || len(content) > maxToken {
		content = nil
	}
	return content, ok
}

// tag skips the rest of a tag, which it returns without ">". A "<" ends a broken tag and is not
// skipped. It is not ok if neither comes.
func (w *window) tag() (content []byte, broken, ok bool) {
	var quote byte
	long := false
	for i := 0; ; i++ {
		if i >= len(w.buf) {
			if i > maxToken {
				w.skip(i)
				i, long = 0, true
			}
			if !w.more() {
				w.skip(len(w.buf))
				return nil, true, false
			}
		}
		switch c := w.buf[i]; {
		case c == '<' || c == '>' && quote == 0:
			if content = w.buf[:i]; long || i > maxToken {
				content = nil
			}
			w.skip(i)
			if c == '>' {
				w.skip(1)
			}
			return content, c == '<', true
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'':
			quote = c
		}
	}
}
