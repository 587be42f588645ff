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
)

// maxCodings bounds how many codings a body may wear at once. One is usual, two come
// from misconfigured proxies; a stack of them is only ever a bomb.
const maxCodings = 3

// codings are the content codings of a header in the order in which they were applied, and
// the names that are none: servers put charsets, media types and "none" there. Browsers
// ignore those, and so do we.
func codings(h http.Header) (list, ignored []string) {
	for _, line := range h["Content-Encoding"] {
		for name := range strings.SplitSeq(line, ",") {
			switch name = strings.ToLower(strings.TrimSpace(name)); name {
			case "", "identity":
			case "gzip", "x-gzip", "deflate", "br", "zstd",
				// Of IANA's registry, and not supported: a body in them cannot be read.
				"compress", "x-compress", "aes128gcm", "dcb", "dcz", "exi", "pack200-gzip":
				list = append(list, name)
			default:
				ignored = append(ignored, name)
			}
		}
	}
	return list, ignored
}

// decoders keeps decoders for reuse: a fresh one costs tens of kilobytes. None of them
// starts a goroutine.
type decoders struct{ gzip, deflate, brotli, zstd sync.Pool }

// stage decodes one coding. Close gives it back to its pool, after which it must not be used.
type stage interface {
	io.ReadCloser
	reset(src io.Reader)
}

// open stacks the stages that undo list on top of src. The closers are to be closed in
// any order; after an error there are none.
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
		s.reset(src)
		src, closers = s, append(closers, s)
	}
	return src, closers, nil
}

func closeAll(closers []io.Closer) {
	for _, c := range closers {
		_ = c.Close() // stages only return to their pools
	}
}

// stage takes a decoder from its pool or makes one; nil if the coding is not supported.
func (d *decoders) stage(name string) stage {
	switch name {
	case "gzip", "x-gzip":
		if s, ok := d.gzip.Get().(*gzipStage); ok {
			return s
		}
		return &gzipStage{source: newSource(&d.gzip)}
	case "deflate":
		if s, ok := d.deflate.Get().(*deflateStage); ok {
			return s
		}
		return &deflateStage{source: newSource(&d.deflate)}
	case "br":
		if s, ok := d.brotli.Get().(*brotliStage); ok {
			return s
		}
		return &brotliStage{source: newSource(&d.brotli)}
	case "zstd":
		if s, ok := d.zstd.Get().(*zstdStage); ok {
			return s
		}
		return newZstd(newSource(&d.zstd))
	}
	return nil
}

// source is what the stages share: a buffered input, and the knowledge whether decoding
// has begun. An input without a byte is an empty body in every coding: servers send
// Content-Encoding with bodiless redirects.
type source struct {
	br   *bufio.Reader
	pool *sync.Pool
	open bool
}

func newSource(pool *sync.Pool) source {
	return source{br: bufio.NewReader(nil), pool: pool}
}

func (s *source) reset(src io.Reader) {
	s.br.Reset(src)
	s.open = false
}

// begin runs start before the first byte is decoded; its EOF means an empty body.
func (s *source) begin(start func() error) error {
	if s.open {
		return nil
	}
	if _, err := s.br.Peek(1); err != nil {
		return err
	}
	s.open = true
	return cut(start())
}

// cut turns the end of the input inside a header into what it is.
func cut(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

type gzipStage struct {
	source
	z gzip.Reader
}

// Read decodes member after member. What follows the last and is no member is ignored,
// as browsers do: some servers append a stray newline.
func (s *gzipStage) Read(p []byte) (int, error) {
	if err := s.begin(s.member); err != nil {
		return 0, err
	}
	for {
		n, err := s.z.Read(p)
		if n > 0 || !errors.Is(err, io.EOF) {
			return n, nonEOF(err)
		}
		if magic, _ := s.br.Peek(2); len(magic) < 2 || magic[0] != 0x1f || magic[1] != 0x8b {
			return 0, io.EOF
		}
		if err := cut(s.member()); err != nil {
			return 0, err
		}
	}
}

// nonEOF holds an EOF back that came with bytes; the next Read meets it again.
func nonEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

func (s *gzipStage) member() error {
	err := s.z.Reset(s.br)
	s.z.Multistream(false)
	return err
}

func (s *gzipStage) Close() error {
	s.br.Reset(nil)
	s.pool.Put(s)
	return nil
}

type deflateStage struct {
	source
	z io.ReadCloser
}

func (s *deflateStage) Read(p []byte) (int, error) {
	if err := s.begin(s.start); err != nil {
		return 0, err
	}
	return s.z.Read(p)
}

// start accepts both things that servers call deflate: the zlib format, recognised by
// its two-byte header (RFC 1950 section 2.2) and read without its checksum, which is
// often wrong, and the bare stream.
func (s *deflateStage) start() error {
	head, _ := s.br.Peek(2)
	if len(head) == 2 && head[0]&0x0f == 8 && (int(head[0])<<8|int(head[1]))%31 == 0 {
		_, _ = s.br.Discard(2) // they have just been peeked
	}
	if s.z == nil {
		s.z = flate.NewReader(s.br)
		return nil
	}
	r, ok := s.z.(flate.Resetter)
	if !ok {
		return errors.New("flate reader cannot be reset")
	}
	return r.Reset(s.br, nil)
}

func (s *deflateStage) Close() error {
	s.br.Reset(nil)
	s.pool.Put(s)
	return nil
}

// brotliStage ignores what follows the stream, as gzipStage does.
type brotliStage struct {
	source
	z brotli.Reader
}

func (s *brotliStage) Read(p []byte) (int, error) {
	if err := s.begin(func() error { return s.z.Reset(s.br) }); err != nil {
		return 0, err
	}
	n, err := s.z.Read(p)
	if err != nil && err.Error() == "brotli: excessive input" { // which has no other name
		err = io.EOF
	}
	return n, err
}

func (s *brotliStage) Close() error {
	s.br.Reset(nil)
	s.pool.Put(s)
	return nil
}

type zstdStage struct {
	source
	z     *zstd.Decoder
	given bool // something was decoded
}

// maxZstdWindow is the largest window a content coding may ask for (RFC 9659 section 3), that
// of a frame of one segment included, whose window is its length. It is the memory of a decoder;
// brotli's goes up to twice as much, as its windows do.
const maxZstdWindow = 8 << 20

// newZstd is nil only if the options contradict each other, which a test would show.
func newZstd(src source) stage {
	z, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1),
		zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxZstdWindow))
	if err != nil {
		return nil
	}
	return &zstdStage{source: src, z: z}
}

func (s *zstdStage) Read(p []byte) (int, error) {
	if err := s.begin(s.start); err != nil {
		return 0, err
	}
	n, err := s.z.Read(p)
	s.given = s.given || n > 0
	if s.given && errors.Is(err, zstd.ErrMagicMismatch) {
		err = io.EOF // what follows the frames is ignored here, too
	}
	return n, err
}

func (s *zstdStage) start() error {
	s.given = false
	return s.z.Reset(s.br)
}

func (s *zstdStage) Close() error {
	s.br.Reset(nil)
	if err := s.z.Reset(nil); err != nil {
		return err // a decoder in an odd state is not worth keeping
	}
	s.pool.Put(s)
	return nil
}
