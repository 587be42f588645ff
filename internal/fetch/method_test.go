package fetch_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/fetch"
)

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
				resp, err := c.Fetch(t.Context(), fetch.Request{
					URL: server.URL + "/", Method: tc.method, Payload: []byte(tc.body), Header: http.Header{"Content-Type": {"text/x"}}, Capture: true,
				})
				require.NoError(t, err)
				require.Equal(t, tc.want, string(resp.Body))
				require.Equal(t, tc.reused, resp.Timings.Reused, tc.method)
				require.Contains(t, string(resp.Capture.Request), tc.method+" / HTTP/1.1\r\n")
				require.Contains(t, string(resp.Capture.Request), "\r\n\r\n"+tc.body)
				resp.Release()
			}
		})
	}
}
