package http1

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"maps"
	"math"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
)

const (
	// maxChunkLine bounds the line that begins a chunk, in bytes. Its extensions are ignored.
	maxChunkLine = 4 << 10
	// freeOverhead and maxOverhead bound the framing, in bytes: each chunk may have freeOverhead and twice its data,
	// and the whole body maxOverhead more.
	freeOverhead = 16
	maxOverhead  = 16 << 10
)

var errChunk = errors.New("http1: malformed chunked body")

// NewChunked returns a reader for the data of a chunked body up to its last chunk. Trailers and the blank line remain
// in in. It accepts what net/http accepts, and also blanks before an extension (RFC 9112 section 7.1.1). For a body
// that ends early it returns io.ErrUnexpectedEOF.
func NewChunked(in *bufio.Reader) io.Reader { return &chunks{in: in} }

type chunks struct {
	in     *bufio.Reader
	left   int64 // bytes left of the current chunk
	inside bool  // a chunk has begun, and the line end after its data was not read
	excess int64 // bytes of framing beyond what is free
	err    error // never changes once set
}

func (c *chunks) Read(p []byte) (n int, err error) {
	for c.err == nil && c.left == 0 {
		if n, c.err = 0, c.begin(); c.err != nil {
			return 0, c.err
		}
	}
	if c.err == nil && len(p) > 0 {
		n, c.err = c.in.Read(p[:min(int64(len(p)), c.left)])
		c.left -= int64(n)
		c.err = Unexpected(c.err)
	}
	return n, c.err
}

// begin reads the end of the current chunk, if there is one, and the line of the next. It returns io.EOF at the last
// chunk.
func (c *chunks) begin() error {
	if c.inside {
		var end [2]byte
		if _, err := io.ReadFull(c.in, end[:]); err != nil {
			return Unexpected(err)
		}
		if string(end[:]) != "\r\n" {
			return errChunk
		}
	}
	line, err := c.in.ReadSlice('\n')
	if err != nil {
		return Unexpected(err)
	}
	text, ended := bytes.CutSuffix(line, []byte("\r\n"))
	if !ended || bytes.IndexByte(text, '\r') >= 0 || len(text) >= maxChunkLine {
		return errChunk
	}
	size, ok := chunkSize(text)
	if !ok {
		return errChunk
	}
	c.excess = max(c.excess+int64(len(line))-freeOverhead-2*min(size, maxOverhead), 0)
	if c.excess > maxOverhead {
		return errors.New("http1: a chunked body has more framing than data")
	}
	c.left, c.inside = size, true
	if size == 0 {
		return io.EOF
	}
	return nil
}

// chunkSize parses the size before the extensions of a chunk's line.
func chunkSize(line []byte) (n int64, ok bool) {
	digits, _, _ := bytes.Cut(line, []byte(";"))
	digits = bytes.TrimRight(digits, " \t")
	size, err := strconv.ParseUint(string(digits), 16, 64)
	// net/http accepts the highest bit, which no body needs, and no more than 16 digits.
	return int64(min(size, math.MaxInt64)), err == nil && len(digits) <= 16
}

// Unexpected replaces io.EOF, as the end of what should go on, by io.ErrUnexpectedEOF.
func Unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// chunkedBody is a chunked body with its trailers, which it adds to the response at its end.
type chunkedBody struct {
	chunks
	resp *http.Response
}

func (b *chunkedBody) Read(p []byte) (int, error) {
	ended := b.err != nil
	n, err := b.chunks.Read(p)
	if errors.Is(err, io.EOF) && !ended {
		if failed := b.trailers(); failed != nil {
			b.err = failed
		}
	}
	return n, b.err
}

func (b *chunkedBody) Close() error { return nil }

var errTrailers = errors.New("http1: malformed trailers of a chunked body")

// trailers reads what follows the last chunk. It has to fit into the buffer.
func (b *chunkedBody) trailers() error {
	for n := 2; ; n++ {
		seen, err := b.in.Peek(n)
		switch {
		case err != nil:
			return errTrailers
		case n == 2 && string(seen) == "\r\n":
			_, _ = b.in.Discard(n) // cannot fail: it was peeked
			return nil
		case !bytes.HasSuffix(seen, []byte("\r\n\r\n")):
			continue
		}
		fields, err := textproto.NewReader(b.in).ReadMIMEHeader()
		if err != nil {
			return errTrailers
		}
		if b.resp.Trailer == nil {
			b.resp.Trailer = make(http.Header, len(fields))
		}
		maps.Copy(b.resp.Trailer, http.Header(fields))
		return nil
	}
}

// chunkedOld reports whether an HTTP/1.0 response says that it is chunked. net/http ignores that, as HTTP/1.0 has no
// chunks.
func chunkedOld(in *bufio.Reader) bool {
	const version = "HTTP/1.0"
	if begun, _ := in.Peek(len(version)); string(begun) != version {
		return false
	}
	for from, n := 0, 1; ; n = max(n+1, in.Buffered()) {
		head, err := in.Peek(n)
		for {
			end := bytes.IndexByte(head[from:], '\n')
			if end < 0 {
				break
			}
			line := string(bytes.TrimRight(head[from:from+end], "\r"))
			if from += end + 1; line == "" {
				return false
			}
			name, value, _ := strings.Cut(line, ":")
			if strings.EqualFold(name, "Transfer-Encoding") && strings.EqualFold(strings.Trim(value, " \t"), "chunked") {
				return true
			}
		}
		if err != nil {
			return false
		}
	}
}

func beginsChunk(in *bufio.Reader) bool {
	for n := 1; n <= 64; n++ {
		line, err := in.Peek(n)
		if text, ended := bytes.CutSuffix(line, []byte("\r\n")); ended {
			_, ok := chunkSize(text)
			return ok
		}
		if err != nil {
			break
		}
	}
	return false
}
