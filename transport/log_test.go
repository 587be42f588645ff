package transport_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/resilience"
	"github.com/treadlight/crawl/transport"
)

func logged(cfg transport.LogConfig, base http.RoundTripper) (http.RoundTripper, *bytes.Buffer) {
	lines := new(bytes.Buffer)
	cfg.Logger = slog.New(slog.NewJSONHandler(lines, &slog.HandlerOptions{Level: slog.LevelDebug}))
	return transport.Layers{Log: transport.Log(cfg)}.Chain(base), lines
}

func record(t *testing.T, lines *bytes.Buffer) map[string]any {
	t.Helper()
	require.Equal(t, 1, strings.Count(lines.String(), "\n"), "records: %s", lines)
	var r map[string]any
	require.NoError(t, json.Unmarshal(lines.Bytes(), &r))
	delete(r, "time")
	return r
}

func TestLogTellsOfTheWholeRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt, lines := logged(transport.LogConfig{}, stub(func(req *http.Request) (*http.Response, error) {
			time.Sleep(2 * time.Second)
			return transport.NewResponse(req, 404, nil, []byte("nothing")), nil
		}))
		res := must(rt.RoundTrip(newRequest(t.Context(), http.MethodPost, "http://me:pw@a.test/p?q=1&token=2", strings.NewReader("form"))))
		require.Empty(t, lines.String(), "before the body's end")
		time.Sleep(3 * time.Second)
		read(res)
		require.Equal(t, map[string]any{
			"level": "INFO", "msg": "request", "method": "POST", "url": "http://a.test/p?q=1&token=xxx", "status": 404.0,
			"attempts": 1.0, "header": 2e9, "total": 5e9, "sent": 4.0, "received": 7.0,
		}, record(t, lines))
	})
}

func TestLogLevels(t *testing.T) {
	for name, tc := range map[string]struct {
		base stub
		want string
	}{
		"good":             {always(200, "page"), "INFO"},
		"not there":        {always(404, "page"), "INFO"},
		"refused":          {always(429, "page"), "WARN"},
		"in trouble":       {always(500, "page"), "WARN"},
		"no answer":        {func(*http.Request) (*http.Response, error) { return nil, io.ErrUnexpectedEOF }, "WARN"},
		"the caller's end": {func(*http.Request) (*http.Response, error) { return nil, context.Canceled }, "INFO"},
		"broken off": {func(*http.Request) (*http.Response, error) {
			return response(&tracked{Reader: brokenReader{strings.NewReader("pa"), io.ErrUnexpectedEOF}}), nil
		}, "WARN"},
	} {
		t.Run(name, func(t *testing.T) {
			rt, lines := logged(transport.LogConfig{}, tc.base)
			if res, err := rt.RoundTrip(get(t, "http://a.test/")); err == nil {
				_, _ = io.ReadAll(res.Body)
				_ = res.Body.Close()
			}
			require.Equal(t, tc.want, record(t, lines)["level"])
		})
	}
	rt, lines := logged(transport.LogConfig{Level: slog.LevelDebug - 1, FailLevel: slog.LevelError}, always(200, "page"))
	do(t, rt, get(t, "http://a.test/"))
	require.Empty(t, lines.String(), "below the logger's level")
}

// Whatever is secret by its name or its place stays out of every part of the record.
func TestLogRedacts(t *testing.T) {
	secrets := map[string]string{
		"Authorization": "Bearer s3cr3t-1", "Proxy-Authorization": "Basic s3cr3t-2", "Cookie": "id=s3cr3t-3; b=s3cr3t-4",
		"X-Api-Key": "s3cr3t-5",
	}
	fail := errors.New("broken")
	for name, err := range map[string]error{"answered": nil, "failed": fail} {
		t.Run(name, func(t *testing.T) {
			rt, lines := logged(transport.LogConfig{Headers: true}, stub(func(req *http.Request) (*http.Response, error) {
				if err != nil {
					quoted := req.URL.String() + fmt.Sprint(req.Header)
					return nil, fmt.Errorf("Get %q: %w (%s, s3cr3t-3, s3cr3t/8)", req.URL, err, quoted)
				}
				return transport.NewResponse(req, 302, http.Header{
					"Set-Cookie": {"id=s3cr3t-a"}, "Location": {"http://u:s3cr3t-b@b.test/?code=s3cr3t-c&q=1"}, "Server": {"nginx"},
				}, nil), nil
			}))
			req := get(t, "http://me:s3cr3t-7@a.test/?access_token=s3cr3t%2F8&q=1")
			for name, value := range secrets {
				req.Header.Set(name, value)
			}
			req.Header.Set("Accept", "text/html")
			res, err := rt.RoundTrip(req)
			if err == nil {
				read(res)
			}
			r := record(t, lines)
			require.NotContains(t, lines.String(), "s3cr3t")
			require.Equal(t, "http://a.test/?access_token=xxx&q=1", r["url"])
			require.Contains(t, r["request_header"], "Authorization", "names are kept")
			require.Contains(t, lines.String(), "text/html")
			if err == nil {
				require.Equal(t, []any{"http://b.test/?code=xxx&q=1"}, r["response_header"].(map[string]any)["Location"])
				require.Contains(t, lines.String(), "nginx")
			} else {
				require.Contains(t, r["error"], "broken")
			}
		})
	}
}

func TestLogCountsAttempts(t *testing.T) {
	for name, base := range map[string]stub{
		"answered": always(503, "later"),
		"failed":   func(*http.Request) (*http.Response, error) { return nil, io.ErrUnexpectedEOF },
	} {
		t.Run(name, func(t *testing.T) {
			rt, lines := logged(transport.LogConfig{}, retrying(retryConfig{MaxAttempts: 3}, base))
			if res, err := rt.RoundTrip(get(t, "http://a.test/")); err == nil {
				read(res)
			} else {
				require.ErrorIs(t, err, resilience.ErrRetriesExhausted)
			}
			require.Equal(t, 3.0, record(t, lines)["attempts"])
		})
	}
}

func TestLogOfABodyOfUnknownLength(t *testing.T) {
	rt, lines := logged(transport.LogConfig{}, always(200, ""))
	req := newRequest(t.Context(), http.MethodPost, "http://a.test/", io.MultiReader(strings.NewReader("form")))
	req.Method, req.URL = "", nil // for the transport to refuse, or not
	do(t, rt, req)
	r := record(t, lines)
	require.EqualValues(t, -1, r["sent"])
	require.Equal(t, "GET", r["method"])
}
