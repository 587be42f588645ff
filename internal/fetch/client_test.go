package fetch_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/fetch"
	"github.com/treadlight/crawl/internal/lab/fetchtest"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
	"github.com/treadlight/crawl/transport"
)

func TestFetchFillsTheResponse(t *testing.T) {
	hosts := onePage(func(w http.ResponseWriter, r *http.Request) {
		// Of several types the last counts; a malformed line hides no valid one.
		w.Header()["Content-Type"] = []string{"text/plain", `Text/HTML; x; charset="UTF-8"`, "nonsense"}
		w.Header()["Retry-After"] = []string{"soon", "7"}
		w.Header().Set("Location", " /next ")
		time.Sleep(2 * time.Second)
		w.WriteHeader(http.StatusFound)
		w.(http.Flusher).Flush()
		time.Sleep(3 * time.Second)
		fmt.Fprintf(w, "%s|%s|%s", r.UserAgent(), r.Header.Get("Accept-Encoding"), r.Header.Get("X-Extra"))
	})
	cfg := fetch.Config{UserAgent: "Bot/1", Header: http.Header{"x-extra": {"yes"}}}
	inMemory(t, cfg, hosts, func(t *testing.T, c *fetch.Client, _ *fetchtest.Net) {
		begin := time.Now()
		res := fetched(t, c, "http://a.test/x?y#z")
		require.Equal(t, http.StatusFound, res.Status)
		require.Equal(t, "Bot/1|gzip, br, zstd|yes", string(res.Body))
		require.Equal(t, "/next", res.Location)
		require.Equal(t, "text/html", res.ContentType)
		require.Equal(t, "utf-8", res.Charset)
		require.Equal(t, 7*time.Second, res.RetryAfter)
		require.Equal(t, "HTTP/1.1", res.Proto)
		require.Equal(t, "a.test:80", res.RemoteAddr)
		require.EqualValues(t, len(res.Body), res.WireBytes)
		require.Equal(t, begin, res.SentAt)
		require.Equal(t, 1, res.Sends)
		require.Equal(t, fetch.Timings{FirstByte: 2 * time.Second, Body: 3 * time.Second, Total: 5 * time.Second}, res.Timings)
	})
}

func TestFetchKeepsTheConnection(t *testing.T) {
	hosts := onePage(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/empty":
			w.WriteHeader(http.StatusNoContent)
		case "/cut": // beyond the bound, but short enough to be drained
			_, _ = io.WriteString(w, strings.Repeat("x", 50<<10))
		case "/unknown":
			w.Header().Set("Content-Encoding", "morse")
			_, _ = io.WriteString(w, "...")
		default:
			_, _ = io.WriteString(w, "page")
		}
	})
	inMemory(t, fetch.Config{}, hosts, func(t *testing.T, c *fetch.Client, site *fetchtest.Net) {
		for i, path := range []string{"/", "/empty", "/cut", "/unknown", "/"} {
			res, _ := c.Fetch(t.Context(), fetch.Request{URL: "http://a.test" + path, MaxBody: 1 << 10})
			require.NotNil(t, res, path)
			require.Equal(t, i > 0, res.Timings.Reused, path)
			res.Release()
			time.Sleep(80 * time.Second) // a long crawl delay
		}
		for _, r := range site.Requests() {
			require.Equal(t, 1, r.Conn, "%s came on another connection", r.Path)
		}
	})
}

func TestRequestHeaderGoesOverConfig(t *testing.T) {
	hosts := onePage(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.UserAgent(), " ", r.Header.Get("X-A"), " ", r.Header.Get("Authorization"))
	})
	cfg := fetch.Config{Header: http.Header{"X-A": {"config"}}}
	inMemory(t, cfg, hosts, func(t *testing.T, c *fetch.Client, _ *fetchtest.Net) {
		for _, tc := range []struct {
			url    string
			header http.Header
			want   string
		}{
			{"http://a.test/", nil, "Treadlight config "},
			{"http://a.test/", http.Header{"x-a": {"mine"}, "User-Agent": {"me"}}, "me mine "},
			{"http://u:p@a.test/", nil, "Treadlight config Basic dTpw"},
			{"http://u:p@a.test/", http.Header{"Authorization": {"mine"}}, "Treadlight config mine"},
			{"http://a.test/", nil, "Treadlight config "},
		} {
			require.Equal(t, tc.want, string(must(c.Fetch(t.Context(), fetch.Request{URL: tc.url, Header: tc.header})).Body))
		}
	})
}

// TestWireForm pins what a request looks like, because the shape that keeps it from
// being replayed must not show, nor that there are policies, and because paths must arrive as they are spelled.
func TestWireForm(t *testing.T) {
	for url, line := range map[string]string{
		"http://a.test":              "GET / HTTP/1.1",
		"http://a.test?q":            "GET /?q HTTP/1.1",
		"http://a.test/a%2Fb/%7ex?":  "GET /a%2Fb/%7ex? HTTP/1.1",
		"http://a.test/100%":         "GET /100% HTTP/1.1",
		"http://a.test/a|b?c|d%":     "GET /a|b?c|d% HTTP/1.1",
		"http://a.test//x":           "GET //x HTTP/1.1",
		"http://a.test//100%":        "GET http://a.test//100% HTTP/1.1",
		"HTTP://a.test/#f?":          "GET / HTTP/1.1",
		"http://a.test/'%27(!)*[;]:": "GET /'%27(!)*[;]: HTTP/1.1",
	} {
		for name, chain := range map[string]func(http.RoundTripper) http.RoundTripper{"": nil, " by policies": transport.Layers{}.PageChain} {
			inBubble(t, url+name, func(t *testing.T) {
				var got []string
				c := newClient(t, fetch.Config{Chain: chain, DialContext: pipeTo(func(far net.Conn) {
					in := bufio.NewScanner(far)
					for in.Scan() && in.Text() != "" {
						got = append(got, in.Text())
					}
					_, _ = io.WriteString(far, "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
				})})
				fetched(t, c, url)
				require.Equal(t, []string{
					line, "Host: a.test", "User-Agent: Treadlight",
					"Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
					"Accept-Encoding: gzip, br, zstd",
				}, got)
			})
		}
	}
}

func TestBadURLs(t *testing.T) {
	c := newClient(t, fetch.Config{})
	for _, url := range []string{
		"", "/path", "a.test/", "ftp://a.test/", "http://", "http:///path", "http://a.test:port/",
		"http://a b/", "http://a.test/a b", "http://a.test/?a\r\nX: y", "http://a.test/é", "http://[::1/",
	} {
		_, err := c.Fetch(t.Context(), fetch.Request{URL: url})
		require.Error(t, err, url)
		e := asError(t, err)
		require.Equal(t, fetch.OpRequest, e.Op, url)
		require.Zero(t, e.Sends)
	}
}

func TestCancel(t *testing.T) {
	for _, b := range []fetchtest.Behavior{fetchtest.Hang, fetchtest.HangInHeader, fetchtest.HangInBody, fetchtest.SlowBody} {
		inBubble(t, string(b), func(t *testing.T) {
			h := fetchtest.HostilePipes(t)
			c := newClient(t, fetch.Config{DialContext: h.DialContext})
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(time.Second, func() { cancel(io.ErrUnexpectedEOF) })
			begin := time.Now()
			_, err := c.Fetch(ctx, fetch.Request{URL: h.URL(b)})
			require.ErrorIs(t, err, context.Canceled)
			require.Equal(t, outcome.Canceled, asError(t, err).Class())
			require.False(t, asError(t, err).Stale)
			require.Equal(t, time.Second, time.Since(begin))
		})
	}
}

func TestCallersDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := fetchtest.HostilePipes(t)
		c := newClient(t, fetch.Config{DialContext: h.DialContext})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := c.Fetch(ctx, fetch.Request{URL: h.URL(fetchtest.Hang)})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, outcome.Timeout, asError(t, err).Class())
	})
}

// TestNoReplay shows what package fetch is careful about: a bare transport sends the
// request twice, a Client does not.
func TestNoReplay(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		t.Run(fmt.Sprintf("http2=%v", http2), func(t *testing.T) {
			h := fetchtest.Hostile(t)
			bare := &http.Transport{}
			defer bare.CloseIdleConnections()
			for i := range 2 {
				res, err := (&http.Client{Transport: bare}).Get(h.URL(fetchtest.SecondTime))
				require.NoError(t, err, "request %d", i)
				must(io.Copy(io.Discard, res.Body))
				require.NoError(t, res.Body.Close())
			}
			require.Equal(t, 3, h.Seen(fetchtest.SecondTime), "net/http has not replayed: is the care still needed?")

			c := newClient(t, fetch.Config{AllowPrivate: true, HTTP2: http2})
			fetched(t, c, h.URL(fetchtest.SecondTime))
			e, _ := failed(t, c, h.URL(fetchtest.SecondTime))
			require.True(t, e.Stale)
			require.Equal(t, 1, e.Sends)
			require.Equal(t, outcome.Network, e.Class())
			require.Equal(t, 5, h.Seen(fetchtest.SecondTime))
			fetched(t, c, h.URL(fetchtest.SecondTime), "with another permit")
			require.Equal(t, 6, h.Seen(fetchtest.SecondTime))
		})
	}
}

// TestDeadKeptConnection closes the kept connection in the instant between its choice
// and the first write, again and again: no such try may reach the caller as a failure.
func TestDeadKeptConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var live []*mortal
		site := fetchtest.Serve(t, onePage(func(http.ResponseWriter, *http.Request) {}))
		c := newClient(t, fetch.Config{DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			raw, err := site.DialContext(ctx, network, addr)
			m := &mortal{Conn: raw}
			mu.Lock()
			live = append(live, m)
			mu.Unlock()
			return m, err
		}})
		for range 20 {
			res := fetched(t, c, "http://a.test/")
			require.Equal(t, 1, res.Sends)
			require.False(t, res.Timings.Reused)
			mu.Lock()
			for _, m := range live {
				m.dead = true
			}
			mu.Unlock()
		}
		require.Equal(t, 20, site.Count("a.test", ""))
	})
}

type mortal struct {
	net.Conn
	dead bool
}

func (m *mortal) Write(p []byte) (int, error) {
	if m.dead {
		_ = m.Close()
		return 0, net.ErrClosed
	}
	return m.Conn.Write(p)
}

func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := make(chan struct{})
		c := must(fetch.New(fetch.Config{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			close(began)
			<-ctx.Done()
			return nil, ctx.Err()
		}}))
		failed := make(chan error)
		go func() {
			_, err := c.Fetch(t.Context(), fetch.Request{URL: "https://a.test/"})
			failed <- err
		}()
		<-began
		begin := time.Now()
		c.Close()
		require.Equal(t, outcome.Canceled, asError(t, <-failed).Class())
		require.Zero(t, time.Since(begin), "Close waited for the dial's own limit")
		_, err := c.Fetch(t.Context(), fetch.Request{URL: "http://a.test/"})
		require.Equal(t, outcome.Canceled, asError(t, err).Class())
	})
}

func TestReleaseAndReuse(t *testing.T) {
	hosts := onePage(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.URL.Path) })
	inMemory(t, fetch.Config{}, hosts, func(t *testing.T, c *fetch.Client, _ *fetchtest.Net) {
		first := fetched(t, c, "http://a.test/first")
		second := fetched(t, c, "http://a.test/other")
		require.Equal(t, "/first", string(first.Body), "a second Fetch took the first one's memory")
		first.Release()
		first.Release()
		require.Nil(t, first.Body)
		third := fetched(t, c, "http://a.test/third")
		first.Release() // must not free what third has now
		fourth := fetched(t, c, "http://a.test/4")
		require.Equal(t, "/other /third /4", fmt.Sprintf("%s %s %s", second.Body, third.Body, fourth.Body))
	})
}

// A request has the method, the body and the header that it is given, by either transport and through policies, and is
// captured so. One that may not be sent twice gets a connection of its own.
func TestMethods(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("Content-Type", "text/plain")
		fmt.Fprintf(w, "%s %d %q %s", r.Method, r.ContentLength, body, r.Header.Get("Content-Type"))
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	for name, cfg := range map[string]fetch.Config{
		"own":    {},
		"HTTP/2": {HTTP2: true},
		"chain":  {Chain: func(base http.RoundTripper) http.RoundTripper { return base }},
	} {
		t.Run(name, func(t *testing.T) {
			cfg.Insecure, cfg.AllowPrivate = true, true
			c := newClient(t, cfg)
			for _, tc := range []struct {
				method, body, want string
				reused             bool
			}{
				{"", "", `GET 0 "" text/x`, false},
				{"", "", `GET 0 "" text/x`, true},
				{"POST", "a=1", `POST 3 "a=1" text/x`, cfg.HTTP2},
				{"POST", "", `POST 0 "" text/x`, cfg.HTTP2},
				{"PUT", "b", `PUT 1 "b" text/x`, cfg.HTTP2},
				{"HEAD", "", "", cfg.HTTP2},
				{"", "", `GET 0 "" text/x`, true},
			} {
				resp := must(c.Fetch(t.Context(), fetch.Request{
					URL: server.URL + "/", Method: tc.method, Payload: []byte(tc.body), Header: http.Header{"Content-Type": {"text/x"}}, Capture: true,
				}))
				require.Equal(t, tc.want, string(resp.Body))
				require.Equal(t, tc.reused, resp.Timings.Reused, tc.method)
				require.Contains(t, string(resp.Capture.Request), tc.method+" / HTTP/1.1\r\n")
				require.Contains(t, string(resp.Capture.Request), "\r\n\r\n"+tc.body)
				resp.Release()
			}
		})
	}
}
