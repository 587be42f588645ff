package main

import (
	"io"
	"net/http"
	"testing"

	"github.com/treadlight/crawl/examples/internal/check"
)

func TestOutput(t *testing.T) {
	pace = check.Fast
	pages := map[string]string{
		"/": "# Index\n[one](/one)\n", "/one": "# One\nThe [same](/copy) text.\n", "/copy": "# One\nThe [same](/copy) text.\n",
	}
	site := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, ok := pages[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/markdown; charset=utf-8")
		_, _ = io.WriteString(w, body)
	})
	check.Output(t, "dedupe", site, run)
}
