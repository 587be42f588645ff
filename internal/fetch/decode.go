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

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/treadlight/crawl/internal/fetch/http1"
)

// maxCodings bounds the codings of one body: two occur behind misconfigured proxies, more are an attack.
const maxCodings = 3

// codings returns the content codings in the order in which they were applied, and the names that are not codings, such
// as charsets, which are ignored as in browsers.
func codings(h http.Header) (list, ignored []string) {
	for _, line := range h["Content-Encoding"] {
		for name := range strings.SplitSeq(line, ",") {
			switch name = strings.ToLower(strings.TrimSpace(name)); name {
			case "", "identity":
			case "gzip", "x-gzip", "deflate", "br", "zstd",
				// Codings of the IANA registry that are not supported: a body in them cannot be read.
				"compress", "x-compress", "aes128gcm", "dcb", "dcz", "exi", "pack200-gzip":
				list = append(list, name)
			default:
				ignored = append(ignored, name)
			}
		}
	}
	return list, ignored
}

// decoders pools decoders, as each has tens of kilobytes. No decoder starts a goroutine.
type decoders [4]sync.Pool

// open returns a reader that undoes the codings of list on src. The closers may be closed in any order. After an error
// there are none.
func (d *decoders) open(src io.Reader, list []string) (io.Reader, []io.Closer, error) {
	if len(list) > maxCodings {
		return nil, nil, fmt.Errorf("%d content codings on top of each other, at most %d are undone", len(list), maxCodings)
	}
	var closers []io.Closer
	for _, name := range slices.Backward(list) {
		s := d.stage(name)
		if s == nil {
			closeAll(closers)
			return nil, nil, fmt.Errorf("content coding %q is not supported", name)
		}
		s.br.Reset(src)
		src, closers = s, append(closers, s)
	}
	return src, closers, nil
}

func closeAll(closers []io.Closer) {
	for _, c := range closers {
		_ = c.Close() // they only return decoders to their pools
	}
}

// stage takes a decoder from its pool or makes a new one. It returns nil if the coding is not supported.
func (d *decoders) stage(name string) *stage {
	i := slices.Index([]string{"gzip", "deflate", "br", "zstd"}, strings.TrimPrefix(name, "x-"))
	if i < 0 {
		return nil
	}
	if s, ok := d[i].Get().(*stage); ok {
		return s
	}
	s := &stage{br: bufio.NewReader(nil), pool: &d[i]}
	[]func(){s.gzip, s.deflate, s.brotli, s.zstd}[i]()
	return s
}

// stage decodes one coding. Close returns it to its pool. An empty input gives an empty body, and data after the end of
// a stream is ignored, as in browsers.
type stage struct {
	br    *bufio.Reader
	pool  *sync.Pool
	open  bool
	start func() error // begins to decode the data of br
	read  func([]byte) (int, error)
	free  func() error // releases what the decoder holds; nil if that is nothing
}

func (s *stage) Read(p []byte) (int, error) {
	if !s.open {
		if _, err := s.br.Peek(1); err != nil {
			return 0, err
		}
		s.open = true
		if err := http1.Unexpected(s.start()); err != nil {
			return 0, err
		}
	}
	return s.read(p)
}

func (s *stage) Close() error {
	s.br.Reset(nil)
	s.open = false
	if s.free != nil {
		if err := s.free(); err != nil {
			return err // the decoder is in an unknown state and not pooled
		}
	}
	s.pool.Put(s)
	return nil
}

// gzip decodes all members of a file, one after another.
func (s *stage) gzip() {
	z := new(gzip.Reader)
	s.start = func() error {
		err := z.Reset(s.br)
		z.Multistream(false)
		return err
	}
	s.read = func(p []byte) (int, error) {
		for {
			n, err := z.Read(p)
			switch {
			case !errors.Is(err, io.EOF):
				return n, err
			case n > 0:
				return n, nil // the next Read returns the end again
			}
			if magic, _ := s.br.Peek(2); len(magic) < 2 || magic[0] != 0x1f || magic[1] != 0x8b {
				return 0, io.EOF
			}
			if err := http1.Unexpected(s.start()); err != nil {
				return 0, err
			}
		}
	}
}

// deflate decodes the zlib format, recognized by its header (RFC 1950 section 2.2), without checking its checksum,
// which is often wrong, and the raw deflate format.
func (s *stage) deflate() {
	z := flate.NewReader(s.br)
	s.read = z.Read
	s.start = func() error {
		head, _ := s.br.Peek(2)
		if len(head) == 2 && head[0]&0x0f == 8 && (int(head[0])<<8|int(head[1]))%31 == 0 {
			_, _ = s.br.Discard(2) // cannot fail: they were peeked
		}
		r, ok := z.(flate.Resetter)
		if !ok {
			return errors.New("flate reader cannot be reset")
		}
		return r.Reset(s.br, nil)
	}
}

func (s *stage) brotli() {
	z := new(brotli.Reader)
	s.start = func() error { return z.Reset(s.br) }
	s.read = func(p []byte) (int, error) {
		n, err := z.Read(p)
		if err != nil && err.Error() == "brotli: excessive input" { // the package exports no such error
			err = io.EOF
		}
		return n, err
	}
}

// maxZstdWindow is the largest window allowed (RFC 9659 section 3), also for single segments. It bounds the memory of a
// decoder; brotli takes up to twice as much.
const maxZstdWindow = 8 << 20

func (s *stage) zstd() {
	given := false // whether something was decoded
	// NewReader fails only if its options contradict each other.
	z, failed := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxZstdWindow))
	s.start = func() error {
		if given = false; failed != nil {
			return failed
		}
		return z.Reset(s.br)
	}
	s.free = func() error { return z.Reset(nil) }
	s.read = func(p []byte) (int, error) {
		n, err := z.Read(p)
		given = given || n > 0
		if given && errors.Is(err, zstd.ErrMagicMismatch) {
			err = io.EOF
		}
		return n, err
	}
}
