package fetch_test

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/fetch"
	"github.com/treadlight/crawl/internal/lab/conformance"
	"github.com/treadlight/crawl/internal/lab/fetchtest"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
)

func coded(t testing.TB, coding, text string) []byte {
	t.Helper()
	var out bytes.Buffer
	var w io.WriteCloser
	var err error
	switch coding {
	case "gzip":
		w = gzip.NewWriter(&out)
	case "zlib":
		w = zlib.NewWriter(&out)
	case "flate":
		w, err = flate.NewWriter(&out, 6)
	case "br":
		w = brotli.NewWriter(&out)
	case "zstd":
		w, err = zstd.NewWriter(&out, zstd.WithEncoderConcurrency(1))
	default:
		return []byte(text)
	}
	require.NoError(t, err)
	must(io.WriteString(w, text))
	require.NoError(t, w.Close())
	return out.Bytes()
}

// served fetches a body that is sent as it is, with this Content-Encoding. It asks
// twice, so that every decoder also comes from its pool once.
func served(t *testing.T, cfg fetch.Config, coding string, wire []byte) (res *fetch.Response, err error) {
	t.Helper()
	hosts := onePage(func(w http.ResponseWriter, r *http.Request) {
		w.Header()["Content-Encoding"] = strings.Split(coding, "\n")
		if r.URL.Path == "/length" {
			w.Header().Set("Content-Length", strconv.Itoa(len(wire)))
		}
		_, _ = w.Write(wire)
	})
	inMemory(t, cfg, hosts, func(t *testing.T, c *fetch.Client, site *fetchtest.Net) {
		first, firstErr := c.Fetch(t.Context(), fetch.Request{URL: "http://a.test/"})
		res, err = c.Fetch(t.Context(), fetch.Request{URL: "http://a.test/length"})
		require.NotNil(t, first)
		require.NotNil(t, res)
		if outcome.Of(200, err) != outcome.Bomb { // which is found between two reads
			require.Equal(t, string(first.Body), string(res.Body))
		}
		require.Equal(t, outcome.Of(0, firstErr), outcome.Of(0, err))
		require.Equal(t, 1, site.Requests()[1].Conn, "the connection was not kept")
	})
	return res, err
}

// TestContentCodings runs the cases of all codings there are.
func TestContentCodings(t *testing.T) {
	cases := wholeCodings(t) + spoiltCodings(t) + codingsBeyondTheRules(t)
	if !t.Failed() {
		conformance.Report(t, "codings", conformance.Result{Cases: cases, Passed: cases})
	}
}

// wholeCodings are bodies that can be read, some of them only with leniency. Like the others it
// returns how many cases it has.
func wholeCodings(t *testing.T) (cases int) {
	text := strings.Repeat("the quick brown fox ", 5000)
	gz := coded(t, "gzip", text)
	for _, tc := range []struct {
		name, coding string
		wire         []byte
		want         string
	}{
		{"none", "", []byte(text), text},
		{"identity", "identity", []byte(text), text},
		{"gzip", "gzip", gz, text},
		{"x-gzip", "X-GZIP", gz, text},
		{"brotli", "br", coded(t, "br", text), text},
		{"zstd", "zstd", coded(t, "zstd", text), text},
		{"deflate as zlib", "deflate", coded(t, "zlib", text), text},
		{"deflate as is", "deflate", coded(t, "flate", text), text},
		{"twice", "gzip, br", coded(t, "br", string(gz)), text},
		{"twice, on two lines", "br\ngzip", coded(t, "gzip", string(coded(t, "br", text))), text},
		{"two gzip members", "gzip", append(bytes.Clone(gz), coded(t, "gzip", "end")...), text + "end"},
		{"newline after gzip", "gzip", append(bytes.Clone(gz), '\r', '\n'), text},
		{"text after gzip", "gzip", append(bytes.Clone(gz), "<!-- by a proxy -->"...), text},
		{"text after brotli", "br", append(coded(t, "br", text), "<!-- by a proxy -->"...), text},
		{"newline after brotli", "br", append(coded(t, "br", text), '\n'), text},
		{"text after zstd", "zstd", append(coded(t, "zstd", text), "<!-- by a proxy -->"...), text},
		{"text after zlib", "deflate", append(coded(t, "zlib", text), "<!-- by a proxy -->"...), text},
		{"gzip of gzip", "gzip", coded(t, "gzip", string(gz)), string(gz)},
		{"skippable zstd frame", "zstd", append([]byte("\x50\x2a\x4d\x18\x04\x00\x00\x00skip"), coded(t, "zstd", "a")...), "a"},
		{"two zstd frames", "zstd", append(coded(t, "zstd", "a"), coded(t, "zstd", "b")...), "ab"},
		{"empty gzip body", "gzip", nil, ""},
		{"empty brotli body", "br", nil, ""},
		{"empty zstd body", "zstd", nil, ""},
		{"empty deflate body", "deflate", nil, ""},
		{"gzip of nothing", "gzip", coded(t, "gzip", ""), ""},
		{"three gzip members, one empty", "gzip", slices.Concat(coded(t, "gzip", "a"), coded(t, "gzip", ""), coded(t, "gzip", "b")), "ab"},
		{"zeros behind gzip", "gzip", append(bytes.Clone(gz), make([]byte, 512)...), text},
		{"zlib with a wrong checksum", "deflate", spoil(coded(t, "zlib", text), -1), text},
		{"zlib without its checksum", "deflate", coded(t, "zlib", text)[:len(coded(t, "zlib", text))-4], text},
		{"zstd without a size", "zstd", streamed(t, text), text},
		{"zstd with a window of 8 MiB", "zstd", streamed(t, text, zstd.WithWindowSize(8<<20)), text},
		{"thrice", "gzip, deflate, br", coded(t, "br", string(coded(t, "zlib", string(gz)))), text},
		{"identity among others", "identity, gzip, identity", gz, text},
		{"none, by name", "none", []byte(text), text},
		{"a charset", "UTF-8", []byte(text), text},
		{"a media type", "text/html; charset=utf-8", []byte(text), text},
		{"a transfer coding", "chunked", []byte(text), text},
		{"many that are none", "binary, 8bit\nnone, utf-8, x", []byte(text), text},
		{"one and none", "gzip, none", gz, text},
		{"none and one", "utf-8\ngzip", gz, text},
	} {
		cases++
		t.Run(tc.name, func(t *testing.T) {
			res := must(served(t, fetch.Config{}, tc.coding, tc.wire))
			require.Equal(t, tc.want, string(res.Body))
			require.False(t, res.Truncated)
			require.EqualValues(t, len(tc.wire), res.WireBytes)
			switch tc.name {
			case "a charset":
				require.Equal(t, "utf-8", res.IgnoredCodings)
			case "many that are none":
				require.Equal(t, "binary, 8bit, none, utf-8, x", res.IgnoredCodings)
			case "one and none":
				require.Equal(t, "none", res.IgnoredCodings)
			case "gzip", "identity", "none":
				require.Empty(t, res.IgnoredCodings)
			}
		})
	}
	return cases
}

func spoil(b []byte, at int) []byte {
	b = bytes.Clone(b)
	b[(at+len(b))%len(b)] ^= 0xff
	return b
}

// streamed is zstd as a server that streams has it: the size stands nowhere.
func streamed(t *testing.T, text string, options ...zstd.EOption) []byte {
	t.Helper()
	var out bytes.Buffer
	w := must(zstd.NewWriter(&out, append(options, zstd.WithEncoderConcurrency(1))...))
	must(io.WriteString(w, text))
	require.NoError(t, w.Flush())
	require.NoError(t, w.Close())
	return out.Bytes()
}

// spoiltCodings are bodies that are not what their coding says.
func spoiltCodings(t *testing.T) (cases int) {
	text := strings.Repeat("the quick brown fox ", 5000)
	for _, coding := range []string{"gzip", "br", "zstd", "deflate"} {
		good := coded(t, strings.Replace(coding, "deflate", "zlib", 1), text)
		flipped := bytes.Clone(good)
		for i := len(good) / 3; i < len(good)/2; i++ {
			flipped[i] ^= 0xa5
		}
		for name, wire := range map[string][]byte{
			"cut to a byte": good[:1],
			"cut in half":   good[:len(good)/2],
			"flipped":       flipped,
			"something":     []byte("<!DOCTYPE html><html>not coded at all</html>"),
		} {
			cases++
			t.Run(coding+" "+name, func(t *testing.T) {
				res, err := served(t, fetch.Config{}, coding, wire)
				e := asError(t, err)
				require.Equal(t, outcome.Decode, e.Class(), err)
				require.Equal(t, fetch.OpDecode, e.Op)
				require.LessOrEqual(t, len(res.Body), len(text))
			})
		}
	}
	gz := coded(t, "gzip", text)
	for name, wire := range map[string][]byte{
		"wrong CRC": spoil(gz, -8), "wrong length": spoil(gz, -1), "no trailer": gz[:len(gz)-8],
		"a second member cut off": append(bytes.Clone(gz), gz[:20]...), "compress": []byte("\x1f\x9d\x90"),
	} {
		cases++
		t.Run("gzip "+name, func(t *testing.T) {
			_, err := served(t, fetch.Config{}, "gzip", wire)
			require.Equal(t, outcome.Decode, asError(t, err).Class(), err)
		})
	}
	return cases
}

// codingsBeyondTheRules are streams that are whole, and not for us.
func codingsBeyondTheRules(t *testing.T) (cases int) {
	packed := func(options ...zstd.EOption) []byte {
		return streamed(t, strings.Repeat("common words ", 1000), options...)
	}
	for _, tc := range []struct {
		name, coding, want string
		wire               []byte
	}{
		{"a dictionary", "zstd", "unknown dictionary", packed(zstd.WithEncoderDictRaw(7, bytes.Repeat([]byte("common words "), 100)))},
		{"a dictionary agreed on", "dcz", `content coding "dcz" is not supported`, []byte("x")},
		{"LZW", "compress", `content coding "compress" is not supported`, []byte("\x1f\x9dx")},
		{"LZW, and no coding", "utf-8, x-compress", `content coding "x-compress" is not supported`, []byte("\x1f\x9dx")},
		{"a wide window", "zstd", "window size exceeded", packed(zstd.WithWindowSize(16 << 20))},
		{"four codings", "gzip, gzip, gzip, gzip", "4 content codings on top of each other", []byte("x")},
		{"a name without end", "gzip", "gzip: invalid header", append([]byte("\x1f\x8b\x08\x08\x00\x00\x00\x00\x00\xff"), bytes.Repeat([]byte("x"), 10<<10)...)},
	} {
		cases++
		t.Run(tc.name, func(t *testing.T) {
			res, err := served(t, fetch.Config{}, tc.coding, tc.wire)
			require.Equal(t, outcome.Decode, asError(t, err).Class())
			require.ErrorContains(t, err, tc.want)
			require.Empty(t, res.Body)
		})
	}
	return cases
}

// TestAFrameDoesNotSayHowMuchMemory has a frame of one segment that claims a gibibyte and
// holds a letter: what is allocated goes by the bound.
func TestAFrameDoesNotSayHowMuchMemory(t *testing.T) {
	claim := []byte("\x28\xb5\x2f\xfd\xa0\x00\x00\x00\x40\x09\x00\x00x")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	res, err := served(t, fetch.Config{}, "zstd", claim)
	runtime.ReadMemStats(&after)
	require.Equal(t, outcome.Decode, asError(t, err).Class(), err)
	require.Empty(t, res.Body)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(16<<20))
}

// TestRatio has bodies around the ratio, which below a mebibyte does not count.
func TestRatio(t *testing.T) {
	for _, tc := range []struct {
		coding string
		size   int
		class  outcome.Class
	}{
		{"br", 1 << 20, outcome.OK},
		{"br", 1<<20 + 1, outcome.Bomb},
		{"zstd", 2 << 20, outcome.Bomb},
		{"gzip", 4 << 20, outcome.Bomb},
		{"zlib", 4 << 20, outcome.Bomb},
	} {
		t.Run(fmt.Sprintf("%s %d", tc.coding, tc.size), func(t *testing.T) {
			body := coded(t, tc.coding, strings.Repeat("0", tc.size))
			res, err := served(t, fetch.Config{}, strings.Replace(tc.coding, "zlib", "deflate", 1), body)
			require.Equal(t, tc.class, outcome.Of(200, err), "%d times, error: %v", tc.size/len(body), err)
			require.Equal(t, tc.class == outcome.Bomb, res.Truncated)
			if tc.class == outcome.Bomb {
				require.Equal(t, fetch.OpBody, asError(t, err).Op)
				require.Less(t, len(res.Body), max(tc.size, 2<<20), "read to the end")
				require.ErrorContains(t, err, "the body decodes to absurdly more than was sent: more than")
			} else {
				require.Len(t, res.Body, tc.size)
			}
		})
	}
}

// TestBound walks over the edge, plain and coded: the bound is on what is handed over.
func TestBound(t *testing.T) {
	for _, coding := range []string{"", "gzip", "br", "zstd"} {
		for size, truncated := range map[int]bool{0: false, 999: false, 1000: false, 1001: true, 50000: true} {
			text := strings.Repeat("x", size)
			res, err := served(t, fetch.Config{MaxBody: 1000}, coding, coded(t, coding, text))
			require.Equal(t, truncated, res.Truncated, "%q, %d bytes", coding, size)
			require.Len(t, res.Body, min(size, 1000))
			if truncated {
				require.Equal(t, outcome.TooLarge, asError(t, err).Class())
				require.Equal(t, fetch.OpBody, asError(t, err).Op)
			} else {
				require.NoError(t, err)
			}
		}
	}
}

// TestDrainGivesUp is about a server that dawdles over the rest of a page we have cut:
// the classification stands, and waiting for the connection ends soon.
func TestDrainGivesUp(t *testing.T) {
	hosts := onePage(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(make([]byte, 2000))
		_ = http.NewResponseController(w).Flush()
		time.Sleep(10 * time.Second)
	})
	inMemory(t, fetch.Config{MaxBody: 1000}, hosts, func(t *testing.T, c *fetch.Client, _ *fetchtest.Net) {
		begin := time.Now()
		res, err := c.Fetch(t.Context(), fetch.Request{URL: "http://a.test/"})
		require.Equal(t, outcome.TooLarge, asError(t, err).Class(), err)
		require.Len(t, res.Body, 1000)
		require.Equal(t, time.Second, time.Since(begin))
	})
}

// FuzzDecode feeds arbitrary bytes to every decoder: whatever comes, Fetch returns a
// body within the bound, and an error only of a class that speaks of bodies.
func FuzzDecode(f *testing.F) {
	for i, coding := range []string{"gzip", "br", "zstd", "zlib", "flate"} {
		f.Add(byte(i), coded(f, coding, "some text, some text"))
	}
	names := []string{"gzip", "br", "zstd", "deflate", "gzip, br"}
	f.Fuzz(func(t *testing.T, pick byte, wire []byte) {
		res, err := served(t, fetch.Config{MaxBody: 64 << 10}, names[int(pick)%len(names)], wire)
		require.LessOrEqual(t, len(res.Body), 64<<10)
		if class := outcome.Of(200, err); class != outcome.OK && class != outcome.Decode && class != outcome.TooLarge && class != outcome.Bomb {
			t.Errorf("class = %v (%v), want ok, decode, too_large or bomb", class, err)
		}
	})
}
