package fetchtest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"

	"github.com/treadlight/crawl/internal/clock"
)

// Raw answers requests with bytes as they are, on sockets or pipes, and keeps the requests as they came. It is safe
// for concurrent use.
type Raw struct {
	answer  func(c net.Conn, path string) bool
	running sync.WaitGroup

	mu     sync.Mutex // guards what follows
	conns  map[net.Conn]struct{}
	closed bool
	heads  []string // up to the blank line
	sent   map[string]int64
	count  map[string]int
}

// NewRaw makes a server that ends with t. Answer writes to c and reports whether the connection goes on; it may be
// called by several goroutines at a time. The Conn of a [Conn] is the connection itself.
func NewRaw(t testing.TB, answer func(c net.Conn, path string) bool) *Raw {
	t.Helper()
	h := &Raw{answer: answer, conns: make(map[net.Conn]struct{}), sent: make(map[string]int64), count: make(map[string]int)}
	t.Cleanup(func() {
		h.mu.Lock()
		h.closed = true
		for c := range h.conns {
			_ = c.Close() // only to end its goroutine
		}
		h.mu.Unlock()
		h.running.Wait()
	})
	return h
}

// Conn is one connection of a [Raw].
type Conn struct {
	net.Conn
	requests int
	sent     int64
}

// Write counts what is written.
func (c *Conn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.sent += int64(n)
	return n, err
}

// Listen serves on a loopback address too, and returns the origin.
func (h *Raw) Listen(t testing.TB, addr string) string {
	t.Helper()
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatalf("fetchtest: listen: %v", err)
	}
	h.running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			h.start(c)
		}
	})
	t.Cleanup(func() { _ = l.Close() }) // only to end Accept
	return "http://" + l.Addr().String()
}

// DialContext connects through a pipe, whatever the address; it fits fetch.Config.
func (h *Raw) DialContext(ctx context.Context, _, addr string) (net.Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	near, far := net.Pipe()
	if !h.start(far) {
		return nil, net.ErrClosed
	}
	return &pipe{Conn: near, local: "127.0.0.1:1", remote: address(addr)}, nil
}

// Heads are the requests so far, each up to the blank line.
func (h *Raw) Heads() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.heads)
}

// Count is how many requests asked for a path, and Sent how many bytes were sent in answer to them.
func (h *Raw) Count(path string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.count[path]
}

// Sent is how many bytes were sent in answer to requests for a path.
func (h *Raw) Sent(path string) int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.sent[path]
}

func (h *Raw) start(c net.Conn) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		_ = c.Close() // nobody is there to be told
		return false
	}
	h.conns[c] = struct{}{}
	h.running.Go(func() {
		h.serve(&Conn{Conn: c})
		_ = c.Close() // it may be closed already
		h.mu.Lock()
		delete(h.conns, c)
		h.mu.Unlock()
	})
	return true
}

func (h *Raw) serve(c *Conn) {
	br := bufio.NewReader(c)
	if first, err := br.Peek(1); err == nil && first[0] == 0x16 { // a TLS ClientHello
		_, _ = io.WriteString(c, "\x16\x7f\x7fthis is no handshake") // garbage either way
		return
	}
	for on := true; on; {
		head, path, err := readHead(br)
		if err != nil {
			return
		}
		h.mu.Lock()
		h.heads = append(h.heads, head)
		h.count[path]++
		h.mu.Unlock()
		before := c.sent
		c.requests++
		on = h.answer(c, path)
		h.mu.Lock()
		h.sent[path] += c.sent - before
		h.mu.Unlock()
	}
}

func readHead(br *bufio.Reader) (head, path string, err error) {
	for {
		line, err := br.ReadString('\n')
		if err != nil {
			return "", "", err
		}
		if line == "\r\n" || line == "\n" {
			break
		}
		head += line
	}
	fields := strings.Fields(head)
	if len(fields) < 2 {
		return "", "", errors.New("not a request")
	}
	return head, fields[1], nil
}

// HostileServer breaks the rules of HTTP in the way that the path of a request names, a
// [Behavior]; it answers another path with a small page.
type HostileServer struct {
	*Raw
	addr string
}

// Hostile starts a server on a loopback socket. It ends with t.
func Hostile(t testing.TB) *HostileServer {
	t.Helper()
	for _, pack := range bombs {
		pack() // now, and not during a client's timeout
	}
	h := HostilePipes(t)
	h.addr = strings.TrimPrefix(h.Listen(t, "127.0.0.1:0"), "http://")
	return h
}

// HostilePipes is a server without a socket, for synctest bubbles: its DialContext reaches it
// under every address. It ends with t.
func HostilePipes(t testing.TB) *HostileServer {
	t.Helper()
	over, stop := context.WithCancel(context.Background()) // every slow behavior ends with it
	h := &HostileServer{addr: "hostile.test", Raw: NewRaw(t, func(c net.Conn, path string) bool {
		act, ok := behaviors[Behavior(path)]
		if !ok {
			act = plain
		}
		return act(&victim{Conn: c.(*Conn), over: over}) //nolint:forcetypeassert // as NewRaw says
	})}
	t.Cleanup(stop)
	return h
}

// URL is where this behavior is met.
func (h *HostileServer) URL(b Behavior) string { return "http://" + h.addr + string(b) }

// Addr is the host and port of the server; a made-up one if it has no socket.
func (h *HostileServer) Addr() string { return h.addr }

// Seen is how many requests have asked for this behavior.
func (h *HostileServer) Seen(b Behavior) int { return h.Count(string(b)) }

// Behavior is a way of misbehaving, named by the path on which it is met.
type Behavior string

// SlowPause is the time between two writes of a slow behavior: shorter than a client's idle
// timeout, so that only a bound on the whole request can end it.
const SlowPause = 11 * time.Second

// BombSize is how many bytes a bomb unpacks to.
const BombSize = 8 << 20

// behaviors act on a request and report whether the connection goes on.
var behaviors = make(map[Behavior]func(*victim) bool)

func behavior(path Behavior, act func(*victim) bool) Behavior {
	behaviors[path] = act
	return path
}

// Behaviors are all, in the order of the paths.
func Behaviors() []Behavior { return slices.Sorted(maps.Keys(behaviors)) }

type victim struct {
	*Conn
	over context.Context
}

func (v *victim) say(format string, args ...any) bool {
	_, err := fmt.Fprintf(v, format, args...)
	return err == nil
}

// forever writes text until the peer is gone, many at once to spare the test's time.
func (v *victim) forever(text string) bool {
	text = strings.Repeat(text, 64)
	for {
		if _, err := io.WriteString(v, text); err != nil {
			return false
		}
	}
}

func (v *victim) slowly(text string) bool {
	for v.say("%s", text) {
		if clock.Sleep(v.over, clock.System(), SlowPause) != nil {
			break
		}
	}
	return false
}

func (v *victim) wait() bool {
	_, _ = io.Copy(io.Discard, v) // whatever the peer still says
	return false
}

func (v *victim) body(coding string, body []byte) bool {
	return v.say("HTTP/1.1 200 OK\r\nContent-Encoding: %s\r\nContent-Length: %d\r\n\r\n%s", coding, len(body), body)
}

const (
	okHead  = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"
	chunked = okHead + "Transfer-Encoding: chunked\r\n\r\n"
)

// plain is good behavior: a connection can be kept afterwards.
func plain(v *victim) bool { return v.say(okHead + "Content-Length: 2\r\n\r\nok") }

// The behaviors. Endless ones go on until the client closes.
var (
	Hang          = behavior("/hang", (*victim).wait)                                                                                              // no answer at all
	HangInHeader  = behavior("/hang-in-header", func(v *victim) bool { return v.say("HTTP/1.1 200 OK\r\nX-Half: ") && v.wait() })                  // half a header, then nothing
	HangInBody    = behavior("/hang-in-body", func(v *victim) bool { return v.say(okHead+"Content-Length: 100\r\n\r\nhalf") && v.wait() })         // half a body, then nothing
	EndlessHeader = behavior("/endless-header", func(v *victim) bool { return v.say("HTTP/1.1 200 OK\r\n") && v.forever("X-More: and more\r\n") }) // header lines for ever
	HugeHeader    = behavior("/huge-header", func(v *victim) bool {
		return v.say("HTTP/1.1 200 OK\r\nX-Huge: %s\r\n\r\n", strings.Repeat("x", 10<<20))
	}) // one header line of ten mebibytes
	Flood1xx       = behavior("/flood-1xx", func(v *victim) bool { return v.forever("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n") })                    // informational answers for ever
	EndlessBody    = behavior("/endless-body", func(v *victim) bool { return v.say(okHead+"\r\n") && v.forever("more and more\n") })                        // a body without end or length
	EndlessChunks  = behavior("/endless-chunks", func(v *victim) bool { return v.say(chunked) && v.forever("5\r\nmore\n\r\n") })                            // the same, chunked
	CloseMidBody   = behavior("/close-mid-body", func(v *victim) bool { v.say(okHead + "Content-Length: 100\r\n\r\nten bytes!"); return false })            // ten of a hundred bytes, then the end
	LongBody       = behavior("/long-body", func(v *victim) bool { return v.say(okHead + "Content-Length: 4\r\n\r\nfourand more") })                        // more bytes than Content-Length says
	BadChunk       = behavior("/bad-chunk", func(v *victim) bool { return v.say(chunked+"4\r\nfour\r\nzz\r\nwhat\r\n") && v.wait() })                       // a chunk size that is no number
	CutChunk       = behavior("/cut-chunk", func(v *victim) bool { v.say(chunked + "4\r\nfour\r\n8\r\ncut"); return false })                                // the end inside a chunk
	LongExtension  = behavior("/long-extension", func(v *victim) bool { return v.say(chunked+"4\r\nfour\r\n4;") && v.forever("ext=") })                     // a chunk extension without end
	ManyExtensions = behavior("/many-extensions", func(v *victim) bool { return v.say(chunked) && v.forever("1;"+strings.Repeat("x", 100)+"\r\nx\r\n") })   // much extension around chunks of a byte, for ever
	EndlessTrailer = behavior("/endless-trailer", func(v *victim) bool { return v.say(chunked+"4\r\nfour\r\n0\r\n") && v.forever("X-More: and more\r\n") }) // trailer lines for ever
	ResetMidBody   = behavior("/reset-mid-body", func(v *victim) bool { return v.say(okHead+"Content-Length: 100\r\n\r\nten bytes!") && reset(v) })         // ten of a hundred bytes, then a reset
	RedirectLoop   = behavior("/redirect-loop", func(v *victim) bool {
		return v.say("HTTP/1.1 302 Found\r\nLocation: %s\r\nContent-Length: 0\r\n\r\n", "/redirect-loop")
	}) // a redirect to itself
	GzipGarbage = behavior("/gzip-garbage", func(v *victim) bool { return v.body("gzip", []byte("<html>plain all along</html>")) })  // says gzip, is not
	GzipCut     = behavior("/gzip-cut", func(v *victim) bool { z := pack("gzip", 256<<10, 7); return v.body("gzip", z[:len(z)/2]) }) // half a gzip stream, whole as a body
	GzipBomb    = behavior("/gzip-bomb", func(v *victim) bool { return v.bomb("gzip") })                                             // BombSize zeros
	BrotliBomb  = behavior("/brotli-bomb", func(v *victim) bool { return v.bomb("br") })                                             // the same in brotli
	ZstdBomb    = behavior("/zstd-bomb", func(v *victim) bool { return v.bomb("zstd") })                                             // the same in zstd
	DeflateBomb = behavior("/deflate-bomb", func(v *victim) bool { return v.bomb("deflate") })                                       // the same in deflate
	GzipName    = behavior("/gzip-name", func(v *victim) bool {
		return v.say("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n\x1f\x8b\x08\x08\x00\x00\x00\x00\x00\x00") && v.forever("name")
	}) // a gzip stream with a file name without end
	EmptyMembers = behavior("/empty-members", func(v *victim) bool {
		return v.say("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n") && v.forever(string(pack("gzip", 0, 0)))
	}) // gzip members without content for ever
	UnknownCoding  = behavior("/unknown-coding", func(v *victim) bool { return v.body("morse", []byte("... --- ...")) })                          // a Content-Encoding nobody knows
	ManyCodings    = behavior("/many-codings", func(v *victim) bool { return v.body(strings.Repeat("gzip,", 9)+"gzip", []byte("never mind")) })   // gzip ten times over
	BadStatusLine  = behavior("/bad-status-line", func(v *victim) bool { v.say("HTTP/1.1 fine OK\r\n\r\n"); return false })                       // a status that is no number
	NotHTTP        = behavior("/not-http", func(v *victim) bool { v.say("220 mail.test ESMTP ready\r\n"); return false })                         // the greeting of a mail server
	Headless       = behavior("/headless", func(v *victim) bool { v.say("<html><a href=/>as it was in the beginning</a></html>"); return false }) // a page without a header, as in HTTP/0.9
	NegativeLength = behavior("/negative-length", func(v *victim) bool { v.say(okHead + "Content-Length: -1\r\n\r\nbody"); return false })        // Content-Length: -1
	TwoLengths     = behavior("/two-lengths", func(v *victim) bool {
		v.say(okHead + "Content-Length: 2\r\nContent-Length: 4\r\n\r\nbody")
		return false
	}) // two lengths that differ
	Reset         = behavior("/reset", reset)                                                                                          // the connection is reset
	CloseSilently = behavior("/close-silently", func(*victim) bool { return false })                                                   // the connection ends without an answer
	LowStatus     = behavior("/low-status", func(v *victim) bool { return v.say("HTTP/1.1 099 Odd\r\nContent-Length: 3\r\n\r\nodd") }) // a status code below 100
	Upgrade       = behavior("/upgrade", func(v *victim) bool {
		return v.say("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: gossip\r\n\r\nhi") && v.wait()
	}) // switches to another protocol unasked
	SlowHeader = behavior("/slow-header", func(v *victim) bool { return v.say("HTTP/1.1 200 OK\r\n") && v.slowly("X-Slow: yes\r\n") }) // header lines, one every SlowPause, for ever: for bubbles
	SlowBody   = behavior("/slow-body", func(v *victim) bool { return v.say(okHead+"\r\n") && v.slowly("drop\n") })                    // a body, a little every SlowPause, for ever: for bubbles
	SecondTime = behavior("/second-time", func(v *victim) bool { return v.requests == 1 && plain(v) })                                 // answers the first request of a connection, and closes at the second
)

// reset makes the close of a TCP connection a reset; a pipe only closes.
func reset(v *victim) bool {
	if c, ok := v.Conn.Conn.(*net.TCPConn); ok {
		_ = c.SetLinger(0) // without it the test would see a mere close and fail
	}
	return false
}

func (v *victim) bomb(coding string) bool { return v.body(coding, bombs[coding]()) }

// bombs are packed once, by coding: brotli takes a while.
var bombs = newBombs()

func newBombs() map[string]func() []byte {
	packed := make(map[string]func() []byte)
	for _, coding := range []string{"gzip", "br", "zstd", "deflate"} {
		packed[coding] = sync.OnceValue(func() []byte { return pack(coding, BombSize, 0) })
	}
	return packed
}

// pack codes size bytes: zeros if step is zero, otherwise a pattern that hardly packs.
func pack(coding string, size int, step uint32) []byte {
	block := make([]byte, 64<<10)
	x := uint32(1)
	var out bytes.Buffer
	w := packer(coding, &out)
	for size > 0 {
		for i := range block[:len(block)*int(min(step, 1))] {
			x = x*1664525 + 1013904223*step // Numerical Recipes' generator
			block[i] = byte(x >> 24)
		}
		n := min(size, len(block))
		_, _ = w.Write(block[:n]) // into memory
		size -= n
	}
	_ = w.Close() // into memory
	return out.Bytes()
}

func packer(coding string, out io.Writer) io.WriteCloser {
	switch coding {
	case "br":
		return brotli.NewWriterLevel(out, 1)
	case "deflate":
		return zlib.NewWriter(out)
	case "zstd":
		if w, err := zstd.NewWriter(out, zstd.WithEncoderConcurrency(1)); err == nil {
			return w
		}
	}
	return gzip.NewWriter(out)
}
