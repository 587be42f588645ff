package fetch_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/fetch"
	"github.com/treadlight/crawl/internal/lab/fetchtest"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
)

type transportFunc func(*http.Request) (*http.Response, error)

func (f transportFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func bodyOf(status int, body string) *http.Response {
	return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader(body))}
}

func TestForeignTransport(t *testing.T) {
	var packed bytes.Buffer
	zw := gzip.NewWriter(&packed)
	_, _ = io.WriteString(zw, "packed")
	require.NoError(t, zw.Close())
	for name, tc := range map[string]struct {
		trip   transportFunc
		status int
		body   string
		op     fetch.Op
		class  outcome.Class
	}{
		"by hand": {func(*http.Request) (*http.Response, error) { return bodyOf(200, "hello"), nil }, 200, "hello", "", 0},
		"no body": {func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusNotFound}, nil
		}, 404, "", "", 0},
		"coded": {func(*http.Request) (*http.Response, error) {
			r := bodyOf(200, packed.String())
			r.Header = http.Header{"Content-Encoding": {"gzip"}}
			return r, nil
		}, 200, "packed", "", 0},
		"redirect": {func(*http.Request) (*http.Response, error) {
			r := bodyOf(302, "")
			r.Header = http.Header{"Location": {"/x"}}
			return r, nil
		}, 302, "", "", 0},
		"too large":   {func(*http.Request) (*http.Response, error) { return bodyOf(200, strings.Repeat("x", 101)), nil }, 200, strings.Repeat("x", 100), fetch.OpBody, outcome.TooLarge},
		"nothing":     {func(*http.Request) (*http.Response, error) { return nil, nil }, 0, "", fetch.OpHeader, outcome.Protocol},
		"no status":   {func(*http.Request) (*http.Response, error) { return new(http.Response), nil }, 0, "", fetch.OpHeader, outcome.ServerError},
		"own error":   {func(*http.Request) (*http.Response, error) { return nil, errors.New("not in the archive") }, 0, "", fetch.OpHeader, outcome.Protocol},
		"reset":       {func(*http.Request) (*http.Response, error) { return nil, syscall.ECONNRESET }, 0, "", fetch.OpHeader, outcome.Network},
		"own timeout": {func(*http.Request) (*http.Response, error) { return nil, context.DeadlineExceeded }, 0, "", fetch.OpHeader, outcome.Timeout},
		"body breaks off": {func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(io.MultiReader(strings.NewReader("half"), failing{io.ErrUnexpectedEOF}))}, nil
		}, 200, "half", fetch.OpBody, outcome.Network},
	} {
		t.Run(name, func(t *testing.T) {
			c := newClient(t, fetch.Config{Transport: tc.trip, MaxBody: 100})
			res, err := c.Fetch(t.Context(), fetch.Request{URL: "http://a.test/"})
			if tc.op == "" {
				require.NoError(t, err)
			} else {
				e := asError(t, err)
				require.Equal(t, []any{tc.op, tc.class, 1}, []any{e.Op, e.Class(), e.Sends})
			}
			if tc.status > 0 {
				require.Equal(t, []any{tc.status, tc.body}, []any{res.Status, string(res.Body)})
			}
		})
	}
}

type failing struct{ error }

func (f failing) Read([]byte) (int, error) { return 0, f.error }

// A transport that heeds its context is ended by the bounds of time, and changes nobody's header.
func TestForeignTransportIsEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, fetch.Config{HeaderTimeout: 3 * time.Second, BodyTimeout: 2 * time.Second, Transport: transportFunc(func(r *http.Request) (*http.Response, error) {
			r.Header.Set("User-Agent", "changed")
			r.Header.Add("Accept", "changed")
			if r.URL.Path == "/body" {
				return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(readerFunc(func([]byte) (int, error) { <-r.Context().Done(); return 0, r.Context().Err() }))}, nil
			}
			if r.URL.Path == "/echo" {
				return bodyOf(200, r.Header.Get("User-Agent")), nil
			}
			<-r.Context().Done()
			return nil, r.Context().Err()
		})})
		begin := time.Now()
		e, _ := failed(t, c, "http://a.test/header")
		require.Equal(t, []any{outcome.Timeout, 3 * time.Second}, []any{e.Class(), time.Since(begin)})
		begin = time.Now()
		e, _ = failed(t, c, "http://a.test/body")
		require.Equal(t, []any{outcome.Timeout, fetch.OpBody, 2 * time.Second}, []any{e.Class(), e.Op, time.Since(begin)})
		require.Equal(t, "changed", string(fetched(t, c, "http://a.test/echo").Body))
	})
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// A transport of net/http that would send a request again on another connection is kept from it.
func TestForeignTransportSendsOnce(t *testing.T) {
	var served atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		if served.Add(1) > 1 {
			panic(http.ErrAbortHandler)
		}
	}))
	defer server.Close()
	rt := new(http.Transport)
	defer rt.CloseIdleConnections()
	c := newClient(t, fetch.Config{Transport: rt})
	require.Equal(t, http.StatusOK, fetched(t, c, server.URL).Status)
	e, _ := failed(t, c, server.URL)
	require.Equal(t, []any{true, int32(2)}, []any{e.Stale, served.Load()})
	server.Close()
	e, _ = failed(t, c, server.URL)
	require.True(t, e.Unconnected(), "%v", e)
}

func TestOnRequest(t *testing.T) {
	hosts := map[string]http.Handler{"a.test": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s %s %s %s", r.Method, r.RequestURI, r.Header.Get("Signature"), r.Header.Get("Cookie"), body)
	})}
	for name, tc := range map[string]struct {
		hook func(*http.Request) error
		want string // or of the error
	}{
		"header": {func(r *http.Request) error {
			body, err := r.GetBody()
			text, _ := io.ReadAll(body)
			r.Header.Set("Signature", r.URL.Path+string(text))
			return err
		}, "POST /a?q /apayload sid=1 payload"},
		"query":    {func(r *http.Request) error { r.URL.RawQuery += "&sig=x"; return nil }, "POST /a?q&sig=x  sid=1 payload"},
		"read":     {func(r *http.Request) error { _, err := io.Copy(io.Discard, r.Body); return err }, "POST /a?q  sid=1 payload"},
		"error":    {func(*http.Request) error { return errors.New("no key") }, "OnRequest: no key"},
		"host":     {func(r *http.Request) error { r.URL.Host = "b.test"; return nil }, "changed the host"},
		"Host":     {func(r *http.Request) error { r.Host = "b.test"; return nil }, "changed the host"},
		"scheme":   {func(r *http.Request) error { r.URL.Scheme = "https"; return nil }, "changed the host"},
		"no URL":   {func(r *http.Request) error { r.URL = nil; return nil }, "changed the host"},
		"method":   {func(r *http.Request) error { r.Method = "PUT"; return nil }, "method or the body"},
		"body":     {func(r *http.Request) error { r.Body = http.NoBody; return nil }, "method or the body"},
		"length":   {func(r *http.Request) error { r.Header.Set("Content-Length", "1"); return nil }, "client's own"},
		"no field": {func(r *http.Request) error { r.Header["X Y"] = nil; return nil }, "cannot be sent"},
		"no value": {func(r *http.Request) error { r.Header.Set("X", "a\nb"); return nil }, "cannot be sent"},
		"no path":  {func(r *http.Request) error { r.URL.Opaque = "/a b"; return nil }, "not an absolute"},
	} {
		for _, h2 := range []bool{false, true} {
			t.Run(fmt.Sprint(name, h2), func(t *testing.T) {
				cfg := fetch.Config{OnRequest: tc.hook, HTTP2: h2, Header: http.Header{"Cookie": {"sid=1"}}}
				inMemory(t, cfg, hosts, func(t *testing.T, c *fetch.Client, site *fetchtest.Net) {
					permits := 0
					res, err := c.Fetch(t.Context(), fetch.Request{
						URL: "http://a.test/a?q", Method: "POST", Payload: []byte("payload"), Permit: func(context.Context) error { permits++; return nil },
					})
					require.Equal(t, 1, permits)
					if err == nil {
						require.Equal(t, tc.want, string(res.Body))
						return
					}
					e := asError(t, err)
					require.Equal(t, []any{fetch.OpHook, 0}, []any{e.Op, e.Sends})
					require.ErrorContains(t, err, tc.want)
					require.Empty(t, site.Requests())
				})
			})
		}
	}
}

// OnResponse sees each answer once, also those that a policy sends again for, after OnHeader.
func TestOnResponse(t *testing.T) {
	var steps []string
	cfg := fetch.Config{
		OnRequest: func(r *http.Request) error { steps = append(steps, "request "+r.URL.Path); return nil },
		OnResponse: func(r *http.Response) error {
			steps = append(steps, fmt.Sprint("response ", r.StatusCode, " ", r.Request.URL.Path))
			r.Header.Del("Content-Type")
			if r.Header.Get("X-Ban") != "" {
				return errors.New("banned")
			}
			return nil
		},
		Repeating: func(next http.RoundTripper) http.RoundTripper {
			return transportFunc(func(r *http.Request) (*http.Response, error) {
				res, err := next.RoundTrip(r)
				if err == nil && res.StatusCode == http.StatusServiceUnavailable {
					_ = res.Body.Close()
					return next.RoundTrip(r)
				}
				return res, err
			})
		},
	}
	tries := 0
	hosts := onePage(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		if tries++; r.URL.Path == "/again" && tries == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		if r.URL.Path == "/banned" {
			w.Header().Set("X-Ban", "1")
		}
		_, _ = io.WriteString(w, "body")
	})
	inMemory(t, cfg, hosts, func(t *testing.T, c *fetch.Client, _ *fetchtest.Net) {
		req := fetch.Request{OnHeader: func(r *fetch.Response) { steps = append(steps, fmt.Sprint("header ", r.Status)) }}
		req.URL, req.Again = "http://a.test/again", func(context.Context, *fetch.Response, error) error { return nil }
		res := must(c.Fetch(t.Context(), req))
		require.Equal(t, []string{"body", "text/plain"}, []string{string(res.Body), res.ContentType})
		req.URL, req.Again = "http://a.test/banned", nil
		res, err := c.Fetch(t.Context(), req)
		e := asError(t, err)
		require.Equal(t, []any{fetch.OpHook, 200, 0}, []any{e.Op, res.Status, len(res.Body)})
		_, ok := errors.AsType[*fetch.HookError](err)
		require.True(t, ok)
	})
	require.Equal(t, []string{
		"request /again", "header 503", "response 503 /again", "request /again", "header 200", "response 200 /again",
		"request /banned", "header 200", "response 200 /banned",
	}, steps)
}

// streams are bodies of all kinds; large is that of most.
func streams(large string) map[string]http.Handler {
	return onePage(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/coded":
			w.Header().Set("Content-Encoding", "gzip")
			zw := gzip.NewWriter(w)
			_, _ = io.WriteString(zw, large)
			_ = zw.Close()
		case "/empty":
		case "/broken":
			_, _ = io.WriteString(w, large[:100])
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		case "/silent":
			_, _ = io.WriteString(w, large[:100])
			w.(http.Flusher).Flush()
			time.Sleep(time.Hour)
		case "/spoilt":
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = io.WriteString(w, large[:100])
		default:
			_, _ = io.WriteString(w, large)
		}
	})
}

func TestStream(t *testing.T) {
	large := strings.Repeat("0123456789", 100_000)
	hosts := streams(large)
	all := func(r io.Reader) error { _, err := io.Copy(io.Discard, r); return err }
	for name, tc := range map[string]struct {
		path   string
		stream fetch.Stream
		size   int64
		cut    bool
		op     fetch.Op
		class  outcome.Class
	}{
		"whole":       {"/", fetch.Stream{Read: all}, int64(len(large)), false, "", 0},
		"coded":       {"/coded", fetch.Stream{Read: all}, int64(len(large)), false, "", 0},
		"empty":       {"/empty", fetch.Stream{Read: all}, 0, false, "", 0},
		"just so":     {"/", fetch.Stream{Read: all, MaxBytes: int64(len(large))}, int64(len(large)), false, "", 0},
		"beyond":      {"/", fetch.Stream{Read: all, MaxBytes: 1000}, 1000, true, fetch.OpBody, outcome.TooLarge},
		"swallowed":   {"/", fetch.Stream{Read: func(r io.Reader) error { _ = all(r); return nil }, MaxBytes: 1000}, 1000, true, fetch.OpBody, outcome.TooLarge},
		"left":        {"/", fetch.Stream{Read: func(r io.Reader) error { _, err := io.CopyN(io.Discard, r, 10); return err }}, 10, true, "", 0},
		"own error":   {"/", fetch.Stream{Read: func(io.Reader) error { return errors.New("disk full") }}, 0, true, fetch.OpHook, outcome.Filtered},
		"broken":      {"/broken", fetch.Stream{Read: all}, 100, true, fetch.OpBody, outcome.Network},
		"silent":      {"/silent", fetch.Stream{Read: all}, 100, true, fetch.OpBody, outcome.Timeout},
		"spoilt":      {"/spoilt", fetch.Stream{Read: all}, 0, true, fetch.OpDecode, outcome.Decode},
		"slow reader": {"/", fetch.Stream{Read: func(r io.Reader) error { time.Sleep(time.Hour); return all(r) }}, int64(len(large)), false, "", 0},
		"out of time": {"/silent", fetch.Stream{Timeout: time.Second, Read: all}, 100, true, fetch.OpBody, outcome.Timeout},
		"small pieces": {"/", fetch.Stream{Read: func(r io.Reader) error {
			return all(readerFunc(func(p []byte) (int, error) { return r.Read(p[:min(len(p), 3)]) }))
		}, MaxBytes: 100}, 100, true, fetch.OpBody, outcome.TooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			inMemory(t, fetch.Config{MaxBody: 50, BodyTimeout: 5 * time.Second}, hosts, func(t *testing.T, c *fetch.Client, _ *fetchtest.Net) {
				tc.stream.Hash = sha256.New()
				res, err := c.Fetch(t.Context(), fetch.Request{URL: "http://a.test" + tc.path, Stream: func(*fetch.Response) *fetch.Stream { return &tc.stream }})
				require.Equal(t, []any{true, tc.size, tc.cut, 0}, []any{res.Streamed, res.Size, res.Truncated, len(res.Body)}, "%v", err)
				require.Equal(t, sha256.Sum256([]byte(large[:tc.size])), [32]byte(tc.stream.Hash.Sum(nil)))
				if tc.op == "" {
					require.NoError(t, err)
					return
				}
				e := asError(t, err)
				require.Equal(t, []any{tc.op, tc.class}, []any{e.Op, e.Class()})
			})
		})
	}
	inMemory(t, fetch.Config{}, hosts, func(t *testing.T, c *fetch.Client, _ *fetchtest.Net) {
		res := must(c.Fetch(t.Context(), fetch.Request{URL: "http://a.test/", Stream: func(*fetch.Response) *fetch.Stream { return nil }}))
		require.Equal(t, []any{false, len(large)}, []any{res.Streamed, len(res.Body)})
	})
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// A large body takes no memory.
func TestStreamTakesNoMemory(t *testing.T) {
	const size, room = 256 << 20, 8 << 20
	c := newClient(t, fetch.Config{Transport: transportFunc(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(io.LimitReader(zeros{}, size))}, nil
	})})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	res, err := c.Fetch(t.Context(), fetch.Request{URL: "http://a.test/", Stream: func(*fetch.Response) *fetch.Stream {
		return &fetch.Stream{MaxBytes: size, Read: func(r io.Reader) error { _, err := io.Copy(io.Discard, r); return err }}
	}})
	runtime.ReadMemStats(&after)
	require.NoError(t, err)
	require.EqualValues(t, size, res.Size)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(room))
}
