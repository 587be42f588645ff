package fetchtest

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"

	"github.com/treadlight/crawl/internal/clock"
)

// Behavior is a way of misbehaving, named by the path on which it is met.
type Behavior string

// The behaviours. "Endless" ones go on until the client closes.
const (
	Hang           Behavior = "/hang"            // no answer at all
	HangInHeader   Behavior = "/hang-in-header"  // half a header, then nothing
	HangInBody     Behavior = "/hang-in-body"    // half a body, then nothing
	EndlessHeader  Behavior = "/endless-header"  // header lines for ever
	HugeHeader     Behavior = "/huge-header"     // one header line of ten mebibytes
	Flood1xx       Behavior = "/flood-1xx"       // informational answers for ever
	EndlessBody    Behavior = "/endless-body"    // a body without end or length
	EndlessChunks  Behavior = "/endless-chunks"  // the same, chunked
	CloseMidBody   Behavior = "/close-mid-body"  // ten of a hundred bytes, then the end
	LongBody       Behavior = "/long-body"       // more bytes than Content-Length says
	BadChunk       Behavior = "/bad-chunk"       // a chunk size that is no number
	CutChunk       Behavior = "/cut-chunk"       // the end inside a chunk
	LongExtension  Behavior = "/long-extension"  // a chunk extension without end
	ManyExtensions Behavior = "/many-extensions" // much extension around chunks of a byte, for ever
	EndlessTrailer Behavior = "/endless-trailer" // trailer lines for ever
	ResetMidBody   Behavior = "/reset-mid-body"  // ten of a hundred bytes, then a reset
	RedirectLoop   Behavior = "/redirect-loop"   // a redirect to itself
	GzipGarbage    Behavior = "/gzip-garbage"    // says gzip, is not
	GzipCut        Behavior = "/gzip-cut"        // half a gzip stream, whole as a body
	GzipBomb       Behavior = "/gzip-bomb"       // BombSize zeros
	BrotliBomb     Behavior = "/brotli-bomb"     // the same in brotli
	ZstdBomb       Behavior = "/zstd-bomb"       // the same in zstd
	DeflateBomb    Behavior = "/deflate-bomb"    // the same in deflate
	GzipName       Behavior = "/gzip-name"       // a gzip stream with a file name without end
	EmptyMembers   Behavior = "/empty-members"   // gzip members without content for ever
	UnknownCoding  Behavior = "/unknown-coding"  // a Content-Encoding nobody knows
	ManyCodings    Behavior = "/many-codings"    // gzip ten times over
	BadStatusLine  Behavior = "/bad-status-line" // a status that is no number
	NotHTTP        Behavior = "/not-http"        // the greeting of a mail server
	Headless       Behavior = "/headless"        // a page without a header, as in HTTP/0.9
	NegativeLength Behavior = "/negative-length" // Content-Length: -1
	TwoLengths     Behavior = "/two-lengths"     // two lengths that differ
	Reset          Behavior = "/reset"           // the connection is reset
	CloseSilently  Behavior = "/close-silently"  // the connection ends without an answer
	LowStatus      Behavior = "/low-status"      // a status code below 100
	Upgrade        Behavior = "/upgrade"         // switches to another protocol unasked

	// SlowHeader and SlowBody move on by a little every SlowPause, for ever. They wait on
	// the clock, so they belong into bubbles.
	SlowHeader Behavior = "/slow-header"
	SlowBody   Behavior = "/slow-body"

	// SecondTime answers the first request of each connection and hangs up on the
	// second without a word, after having read it.
	SecondTime Behavior = "/second-time"
)

// SlowPause is the silence between two writes of a slow behaviour: shorter than a
// client's patience with silence, so that only a bound on the whole can end it.
const SlowPause = 11 * time.Second

// BombSize is how many bytes a bomb unpacks to.
const BombSize = 8 << 20

// Behaviors is every behaviour in the order of the paths.
func Behaviors() []Behavior { return slices.Sorted(maps.Keys(behaviors)) }

// victim is a connection whose peer has sent a request, its n-th.
type victim struct {
	net.Conn
	h        *HostileServer
	requests int
}

// say writes text and reports whether the peer still takes it.
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

// slowly writes text every SlowPause until the peer is gone or the test over.
func (v *victim) slowly(text string) bool {
	for v.say("%s", text) {
		if clock.Sleep(v.h.over, clock.System(), SlowPause) != nil {
			break
		}
	}
	return false
}

// wait returns when the peer is gone.
func (v *victim) wait() bool {
	_, _ = io.Copy(io.Discard, v) // whatever the peer still says
	return false
}

// body answers with a coded body.
func (v *victim) body(coding string, body []byte) bool {
	return v.say("HTTP/1.1 200 OK\r\nContent-Encoding: %s\r\nContent-Length: %d\r\n\r\n%s", coding, len(body), body)
}

const (
	okHead  = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"
	chunked = okHead + "Transfer-Encoding: chunked\r\n\r\n"
)

// plain is good behaviour: a connection can be kept afterwards.
func plain(v *victim) bool { return v.say(okHead + "Content-Length: 2\r\n\r\nok") }

// behaviors act on a request and report whether the connection goes on.
var behaviors = map[Behavior]func(*victim) bool{
	Hang:          (*victim).wait,
	HangInHeader:  func(v *victim) bool { return v.say("HTTP/1.1 200 OK\r\nX-Half: ") && v.wait() },
	HangInBody:    func(v *victim) bool { return v.say(okHead+"Content-Length: 100\r\n\r\nhalf") && v.wait() },
	EndlessHeader: func(v *victim) bool { return v.say("HTTP/1.1 200 OK\r\n") && v.forever("X-More: and more\r\n") },
	HugeHeader: func(v *victim) bool {
		return v.say("HTTP/1.1 200 OK\r\nX-Huge: %s\r\n\r\n", strings.Repeat("x", 10<<20))
	},
	Flood1xx:       func(v *victim) bool { return v.forever("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n") },
	EndlessBody:    func(v *victim) bool { return v.say(okHead+"\r\n") && v.forever("more and more\n") },
	EndlessChunks:  func(v *victim) bool { return v.say(chunked) && v.forever("5\r\nmore\n\r\n") },
	CloseMidBody:   func(v *victim) bool { v.say(okHead + "Content-Length: 100\r\n\r\nten bytes!"); return false },
	LongBody:       func(v *victim) bool { return v.say(okHead + "Content-Length: 4\r\n\r\nfourand more") },
	BadChunk:       func(v *victim) bool { return v.say(chunked+"4\r\nfour\r\nzz\r\nwhat\r\n") && v.wait() },
	CutChunk:       func(v *victim) bool { v.say(chunked + "4\r\nfour\r\n8\r\ncut"); return false },
	LongExtension:  func(v *victim) bool { return v.say(chunked+"4\r\nfour\r\n4;") && v.forever("ext=") },
	ManyExtensions: func(v *victim) bool { return v.say(chunked) && v.forever("1;"+strings.Repeat("x", 100)+"\r\nx\r\n") },
	EndlessTrailer: func(v *victim) bool { return v.say(chunked+"4\r\nfour\r\n0\r\n") && v.forever("X-More: and more\r\n") },
	ResetMidBody: func(v *victim) bool {
		return v.say(okHead+"Content-Length: 100\r\n\r\nten bytes!") && reset(v)
	},
	RedirectLoop: func(v *victim) bool {
		return v.say("HTTP/1.1 302 Found\r\nLocation: %s\r\nContent-Length: 0\r\n\r\n", RedirectLoop)
	},
	GzipGarbage:  func(v *victim) bool { return v.body("gzip", []byte("<html>plain all along</html>")) },
	GzipCut:      func(v *victim) bool { z := pack("gzip", 256<<10, 7); return v.body("gzip", z[:len(z)/2]) },
	GzipBomb:     func(v *victim) bool { return v.bomb("gzip") },
	BrotliBomb:   func(v *victim) bool { return v.bomb("br") },
	ZstdBomb:     func(v *victim) bool { return v.bomb("zstd") },
	DeflateBomb:  func(v *victim) bool { return v.bomb("deflate") },
	EmptyMembers: emptyMembers,
	GzipName: func(v *victim) bool {
		return v.say("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n\x1f\x8b\x08\x08\x00\x00\x00\x00\x00\x00") && v.forever("name")
	},
	UnknownCoding:  func(v *victim) bool { return v.body("morse", []byte("... --- ...")) },
	ManyCodings:    func(v *victim) bool { return v.body(strings.Repeat("gzip,", 9)+"gzip", []byte("never mind")) },
	BadStatusLine:  func(v *victim) bool { v.say("HTTP/1.1 fine OK\r\n\r\n"); return false },
	NotHTTP:        func(v *victim) bool { v.say("220 mail.test ESMTP ready\r\n"); return false },
	Headless:       func(v *victim) bool { v.say("<html><a href=/>as it was in the beginning</a></html>"); return false },
	NegativeLength: func(v *victim) bool { v.say(okHead + "Content-Length: -1\r\n\r\nbody"); return false },
	TwoLengths: func(v *victim) bool {
		v.say(okHead + "Content-Length: 2\r\nContent-Length: 4\r\n\r\nbody")
		return false
	},
	Reset:         reset,
	CloseSilently: func(*victim) bool { return false },
	LowStatus: func(v *victim) bool {
		return v.say("HTTP/1.1 099 Odd\r\nContent-Length: 3\r\n\r\nodd")
	},
	Upgrade: func(v *victim) bool {
		return v.say("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: gossip\r\n\r\nhi") && v.wait()
	},
	SlowHeader: func(v *victim) bool { return v.say("HTTP/1.1 200 OK\r\n") && v.slowly("X-Slow: yes\r\n") },
	SlowBody:   func(v *victim) bool { return v.say(okHead+"\r\n") && v.slowly("drop\n") },
	SecondTime: func(v *victim) bool { return v.requests == 1 && plain(v) },
}

// reset closes with unsent data discarded, which TCP tells the peer by a reset. A pipe
// knows no such thing and only closes.
func reset(v *victim) bool {
	if c, ok := v.Conn.(*net.TCPConn); ok {
		_ = c.SetLinger(0) // without it the test would see a mere close and fail
	}
	return false
}

func emptyMembers(v *victim) bool {
	return v.say("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n") && v.forever(string(pack("gzip", 0, 0)))
}

// bomb answers with BombSize zeros.
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
