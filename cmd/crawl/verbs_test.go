package main

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
)

// Every command that asks hosts tells them its version, as a crawl does.
func TestVerbsTellTheirVersion(t *testing.T) {
	var mu sync.Mutex
	var agents []string
	url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		agents = append(agents, r.UserAgent())
		if r.URL.Path != "/" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte("<h1>A page</h1><p>" + strings.Repeat("It has some words to read. ", 20)))
	}))
	dir := t.TempDir()
	for _, args := range [][]string{
		{"-q"}, {"read"}, {"try"}, {"plan"}, {"doctor"}, {"audit", "--fail-on", "none"}, {"mirror", "-o", dir + "/copy"}, {"watch", "--once", dir + "/state"},
	} {
		agents = nil
		crawls(t, 0, append(args, "--contact", "a@b.test", url)...)
		require.NotEmpty(t, agents, args)
		for _, agent := range agents {
			require.Equal(t, "Treadlight/"+cli.Version()+" (+a@b.test)", agent, args)
		}
	}
}
