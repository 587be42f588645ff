package read

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	_ "github.com/treadlight/crawl/maintext"
)

// Of a response that breaks off the beginning is printed, and the exit code says that there is more.
func TestResponseBreaksOff(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/robots.txt" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		w.Header().Set("Content-Length", "90000")
		_, _ = io.WriteString(w, "<title>T</title><h1>Head</h1>"+strings.Repeat("<p>Some words of a paragraph.</p>", 30))
	}))
	defer server.Close()
	var out, messages strings.Builder
	err := Run(t.Context(), Config{
		URLs: []string{server.URL + "/"}, Options: crawl.Options{}, Out: &out, Term: cli.NewTerminal(&messages, nil, "none"),
	})
	require.Equal(t, cli.CodeLimit, cli.CodeOf(err))
	require.ErrorContains(t, err, "was read in part")
	require.Contains(t, out.String(), "Some words of a paragraph.")
	require.Contains(t, messages.String(), "only the beginning is read: the response broke off")
}
