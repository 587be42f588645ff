package post

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What is answered with 2xx was taken, whatever the answer says; anything else is a refusal that does not name the URL.
func TestSend(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch r.URL.Path {
		case "/echo":
			_, _ = w.Write(append(append(body, " "...), r.Header.Get("X-Of")...))
		case "/long":
			_, _ = io.WriteString(w, strings.Repeat("x", 2*maxAnswer))
		case "/broken":
			w.Header().Set("Content-Length", "10")
			_, _ = io.WriteString(w, "begin")
		case "/later":
			w.Header().Set("Retry-After", "7200")
			w.WriteHeader(http.StatusServiceUnavailable)
		default:
			http.Redirect(w, r, "/echo", http.StatusFound)
		}
	}))
	defer server.Close()
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	for _, tc := range []struct {
		to, answer, says string
		status           int
		after            time.Duration
	}{
		{to: server.URL + "/echo", answer: "body of me"},
		{to: server.URL + "/long", answer: strings.Repeat("x", maxAnswer)},
		{to: server.URL + "/broken", answer: "begin"},
		{to: server.URL + "/later", says: "it answers 503 Service Unavailable, again in 1h0m0s", status: 503, after: time.Hour},
		{to: server.URL + "/moved", says: "it answers 302 Found", status: 302},
		{to: "http://127.0.0.1:1/secret", says: "connect"},
		{to: "http://127.0.0.1:1/%secret", says: "invalid URL escape"},
	} {
		t.Run(tc.to[strings.LastIndexByte(tc.to, '/'):], func(t *testing.T) {
			answer, err := Send(t.Context(), client, tc.to, http.Header{"X-Of": {"of me"}}, []byte("body"), time.Hour)
			require.Equal(t, tc.answer, string(answer))
			if tc.says == "" {
				require.NoError(t, err)
				return
			}
			var r *Refusal
			require.ErrorAs(t, err, &r)
			require.ErrorContains(t, err, tc.says)
			require.Equal(t, tc.status, r.Status)
			require.Equal(t, tc.after, r.After)
			require.NotContains(t, err.Error(), "/secret")
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Send(ctx, client, server.URL, nil, nil, 0)
	require.ErrorIs(t, err, context.Canceled)
}
