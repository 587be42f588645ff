package pipeline

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/fetch"
	"github.com/treadlight/crawl/internal/lab/fetchtest"
	"github.com/treadlight/crawl/internal/records/sink"
)

// gallery is a host with pages, pictures and a film, and a robots.txt that says it is a
// picture.
func gallery(w http.ResponseWriter, r *http.Request) {
	const film = 5 << 20
	switch {
	case r.URL.Path == "/robots.txt":
		w.Header().Set("Content-Type", "image/png")
		_, _ = io.WriteString(w, "User-agent: *\nDisallow: /private\n")
	case r.URL.Path == "/":
		html(w, `<a href="/page">p</a> <a href="/a.png">a</a> <a href="/b.png">b</a> <a href="/film">f</a> <a href="/private">x</a> <a href="/gone.png">g</a>`)
	case r.URL.Path == "/gone.png":
		w.Header().Set("Content-Type", "image/png")
		w.WriteHeader(http.StatusNotFound)
	case strings.HasSuffix(r.URL.Path, ".png"):
		w.Header().Set("Content-Type", "image/png")
		_, _ = io.WriteString(w, "\x89PNG")
	case r.URL.Path == "/film":
		w.Header().Set("Content-Length", "5242880")
		_, _ = w.Write(make([]byte, film))
	default:
		html(w, "text with \x00 and ü")
	}
}

// visited crawls the gallery and returns its records by path.
func visited(t *testing.T, change func(*world)) (map[string]*sink.Record, *Pipeline, *fetchtest.Net) {
	t.Helper()
	net := fetchtest.Serve(t, map[string]http.Handler{"h.test": http.HandlerFunc(gallery)})
	w := newWorldOn(t, fetch.Config{DialContext: net.DialContext})
	change(w)
	p, err := w.crawl(t, "http://h.test/")
	require.NoError(t, err)
	records := make(map[string]*sink.Record)
	for u, rec := range w.out.byURL(t) {
		records[strings.TrimPrefix(u, "http://h.test")] = rec
	}
	return records, p, net
}

// TestFilteredPages have a record with what their header said, are asked for once, and say
// nothing against their host.
func TestFilteredPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		records, p, net := visited(t, func(w *world) {
			var err error
			w.Filter, err = fetch.NewFilter([]string{"text/*"}, 1<<20)
			require.NoError(t, err)
		})
		class := map[string]string{"/a.png": "filtered", "/b.png": "filtered", "/film": "filtered", "/private": "robots"}
		require.Len(t, records, 7)
		for path, rec := range records {
			if want := class[path]; want == "" {
				require.Nil(t, rec.Error, path)
			} else {
				require.Equal(t, want, rec.Error.Class, path)
			}
			require.LessOrEqual(t, net.Count("h.test", path), 1, path)
		}
		require.Equal(t, "image/png", records["/a.png"].ContentType)
		require.Equal(t, 200, records["/a.png"].Status)
		require.Empty(t, records["/a.png"].Digest)
		require.Equal(t, 404, records["/gone.png"].Status)
		require.Contains(t, records["/film"].Error.Message, "a body of 5242880 bytes, more than 1048576 are not wanted")
		snap := p.Snapshot()
		require.EqualValues(t, 3, snap.Outcomes["filtered"])
		require.EqualValues(t, 2, snap.Pages)
		require.EqualValues(t, 1, snap.Errors, "the 404; what is not wanted is none")
		require.EqualValues(t, 1, snap.Refused)
		require.Zero(t, snap.Retries)
		require.Less(t, snap.WireBytes, int64(1<<10))
		require.Len(t, snap.Limiter.Top, 1)
		require.Zero(t, snap.Limiter.Top[0].ErrorRate)
	})
}

func TestStoredBodies(t *testing.T) {
	for name, wanted := range map[string]bool{"stored": true, "not asked for": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				records, _, _ := visited(t, func(w *world) { w.StoreBody = wanted })
				text, picture := records["/page"], records["/a.png"]
				require.NotEmpty(t, text.Digest)
				if !wanted {
					require.Empty(t, text.Body)
					require.Empty(t, picture.BodyBase64)
					return
				}
				require.Contains(t, text.Body, "text with \x00 and ü")
				require.Empty(t, text.BodyBase64)
				require.Equal(t, []byte("\x89PNG"), picture.BodyBase64)
				require.Empty(t, picture.Body)
				require.Len(t, records["/film"].Body, 5<<20)
			})
		})
	}
}

// TestBodiesWaitForRoom: what waits for Output is bounded by its size, not only by number.
func TestBodiesWaitForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		carrying := func(body, exchange int) *result {
			return &result{rec: &sink.Record{Body: strings.Repeat("x", body), Exchange: &fetch.Capture{Response: make([]byte, exchange)}}}
		}
		b := newWorldOn(t, fetch.Config{}).build(t)
		first, second, third := carrying(maxHeld/2, maxHeld/4), carrying(maxHeld/4, 0), carrying(1, 0)
		require.NoError(t, b.hold(t.Context(), first))
		require.NoError(t, b.hold(t.Context(), second))
		require.NoError(t, b.hold(t.Context(), &result{rec: &sink.Record{}}), "a record that carries nothing needs no room")
		done := make(chan error)
		go func() { done <- b.hold(t.Context(), third) }()
		synctest.Wait()
		select {
		case <-done:
			t.Fatal("there was room beyond the bound")
		default:
		}
		b.unhold(first)
		b.unhold(first) // which counts once
		require.NoError(t, <-done)

		huge := carrying(2*maxHeld, 0)
		soon, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, b.hold(soon, huge), context.DeadlineExceeded)
		b.unhold(second)
		b.unhold(third)
		require.NoError(t, b.hold(t.Context(), huge), "alone it has its way")
	})
}
