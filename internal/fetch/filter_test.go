package fetch_test

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/fetch"
	"github.com/treadlight/crawl/internal/lab/fetchtest"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
)

func TestFilterErrors(t *testing.T) {
	for _, bad := range []string{"html", "", "!", "*", "text/html; charset=utf-8", "text/", "a/b/c", "text/[", "text/html,image/png"} {
		_, err := fetch.NewFilter([]string{"text/*", bad}, 0)
		if bad == "text/" { // matches nothing, and can be written
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, strconv.Quote(bad)+" is no pattern of media types: write type/subtype", bad)
	}
	_, err := fetch.NewFilter(nil, -1)
	require.ErrorContains(t, err, "a largest size of -1 bytes")
}

func TestFilter(t *testing.T) {
	html := []string{"text/html", "application/*+xml"}
	for _, tc := range []struct {
		name   string
		types  []string
		larger int64
		media  string
		status int
		length int    // of the body
		why    string // part of the reason; empty: the body is read
	}{
		{"no rules", nil, 0, "image/png", 200, 9, ""},
		{"wanted", html, 0, "text/html; charset=utf-8", 200, 9, ""},
		{"wanted by a star", html, 0, "Application/XHTML+XML", 200, 9, ""},
		{"not among the wanted", html, 0, "image/png", 200, 9, `media type "image/png" is none of text/html, application/*+xml`},
		{"refused", []string{"!image/*"}, 0, "image/png", 200, 9, `media type "image/png" is refused by "!image/*"`},
		{"not refused", []string{"!image/*"}, 0, "text/css", 200, 9, ""},
		{"refused goes before wanted", []string{"image/*", "!image/svg+xml"}, 0, "image/svg+xml", 200, 9, "refused"},
		{"wanted, and another refused", []string{"image/*", "!image/svg+xml"}, 0, "image/png", 200, 9, ""},
		{"no type", html, 0, "", 200, 9, ""},
		{"garbage for a type", html, 0, ";;;", 200, 9, ""},
		{"an error says enough", html, 0, "application/json", 404, 9, ""},
		{"a redirect, too", html, 0, "application/json", 302, 9, ""},
		{"as long as may be", nil, 9, "text/html", 200, 9, ""},
		{"longer", nil, 8, "text/html", 200, 9, "a body of 9 bytes, more than 8 are not wanted"},
		{"an error that is longer", nil, 8, "text/html", 500, 9, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			hosts := onePage(func(w http.ResponseWriter, _ *http.Request) {
				w.Header()["Content-Type"] = []string{tc.media}
				w.Header().Set("Content-Length", strconv.Itoa(tc.length))
				w.Header().Set("Retry-After", "7")
				w.WriteHeader(tc.status)
				_, _ = io.WriteString(w, strings.Repeat("x", tc.length))
			})
			inMemory(t, fetch.Config{}, hosts, func(t *testing.T, c *fetch.Client, site *fetchtest.Net) {
				for range 2 {
					told := time.Duration(0)
					res, err := c.Fetch(t.Context(), fetch.Request{
						URL: "http://a.test/", Filter: must(fetch.NewFilter(tc.types, tc.larger)),
						OnHeader: func(res *fetch.Response) { told = res.RetryAfter },
					})
					require.Equal(t, 7*time.Second, told, "an order to wait holds, whatever becomes of the body")
					require.NotNil(t, res)
					require.Equal(t, tc.status, res.Status)
					if tc.why == "" {
						require.NoError(t, err)
						require.Len(t, res.Body, tc.length)
						continue
					}
					e := asError(t, err)
					require.ErrorContains(t, err, tc.why)
					require.Equal(t, fetch.OpFilter, e.Op)
					require.Equal(t, outcome.Filtered, e.Class())
					require.False(t, e.Class().Transient() || e.Class().Overload())
					require.Empty(t, res.Body)
					require.False(t, res.Truncated)
					require.Zero(t, res.WireBytes)
					require.Equal(t, strconv.Itoa(tc.length), res.Header.Get("Content-Length"))
				}
				require.Equal(t, 1, site.Requests()[1].Conn, "a connection was given up for nine bytes")
			})
		})
	}
}

// TestAnUnwantedBodyIsNotRead has bodies that are long, or come slowly: neither is waited for.
func TestAnUnwantedBodyIsNotRead(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\nContent-Type: video/mp4\r\n"
	for _, tc := range []struct {
		name, said string
		took       time.Duration
	}{
		{"long", head + "Content-Length: 5000000000\r\n\r\nbegin", 0},
		{"slow", head + "Content-Length: 5000\r\n\r\nbegin", time.Second},
		{"of no known length", head + "\r\n" + strings.Repeat("x", 200<<10), 0},
	} {
		inBubble(t, tc.name, func(t *testing.T) {
			c := newClient(t, fetch.Config{DialContext: pipeTo(rawAnswer(tc.said, 32<<10, true))})
			begin := time.Now()
			res, err := c.Fetch(t.Context(), fetch.Request{URL: "http://a.test/", Filter: must(fetch.NewFilter([]string{"!video/*"}, 0)), Capture: true})
			require.Equal(t, outcome.Filtered, asError(t, err).Class(), err)
			require.Equal(t, tc.took, time.Since(begin))
			require.Equal(t, tc.said[:strings.Index(tc.said, "\r\n\r\n")+4], string(res.Capture.Response))
			require.Empty(t, res.Capture.Payload)
			require.Equal(t, "length", res.Capture.Truncated)
		})
	}
}

// TestWanted has bodies of which the beginning decides whether the rest is read.
func TestWanted(t *testing.T) {
	const head = 8 << 10
	for _, length := range []int{0, 10, head, head + 1, 2 << 20} {
		for _, wanted := range []bool{true, false} {
			body, seen := strings.Repeat("x", length), 0
			c := newClient(t, fetch.Config{DialContext: pipeTo(rawAnswer("HTTP/1.1 200 OK\r\nContent-Length: "+strconv.Itoa(length)+"\r\n\r\n"+body, 32<<10, false))})
			res := must(c.Fetch(t.Context(), fetch.Request{URL: "http://a.test/", Capture: true, Wanted: func(_ *fetch.Response, begin []byte) bool {
				seen = len(begin)
				return wanted
			}}))
			if whole := wanted || length < head; whole {
				require.Equal(t, body, string(res.Body))
				require.False(t, res.Truncated)
				require.Empty(t, res.Capture.Truncated)
			} else {
				require.Equal(t, body[:head], string(res.Body))
				require.True(t, res.Truncated)
				require.Less(t, res.WireBytes, int64(100<<10))
			}
			require.Equal(t, length >= head, seen == head)
			res.Release()
		}
	}
}
