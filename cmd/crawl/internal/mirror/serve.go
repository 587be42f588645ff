package mirror

import (
	"context"
	"io/fs"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/internal/web/mediatype"
)

// policy lets a page load only what is in the copy. Its links may lead elsewhere.
const policy = "default-src 'self' data: blob: 'unsafe-inline' 'unsafe-eval'; form-action 'none'"

// Serve serves a copy at an address of this machine until ctx ends. It calls listening with the URL. Pages that use
// modules, or pictures from one SVG file, need a server: browsers do not load these from files.
func Serve(ctx context.Context, dir, addr string, listening func(url string)) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return cli.IOf("open the mirror: %w", err)
	}
	defer func() { _ = root.Close() }() // it was only read
	return cli.Serve(ctx, "serve", addr, handler(root), listening)
}

// handler serves the files of a copy, but not its state.
func handler(root *os.Root) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := strings.TrimPrefix(path.Clean("/"+r.URL.Path), "/")
		if name == "" || strings.HasSuffix(r.URL.Path, "/") {
			name = path.Join(name, "index.html")
		}
		var info fs.FileInfo
		f, err := root.Open(filepath.FromSlash(name))
		if err == nil {
			defer func() { _ = f.Close() }() // it was only read
			info, err = f.Stat()
		}
		if err != nil || !info.Mode().IsRegular() || r.Method != http.MethodGet && r.Method != http.MethodHead || strings.HasPrefix(name, ".") || strings.Contains(name, "\\") {
			http.NotFound(w, r)
			return
		}
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("Content-Type", mediatype.OfExtension(path.Ext(name), "application/octet-stream"))
		h.Set("X-Content-Type-Options", "nosniff")
		http.ServeContent(w, r, "", info.ModTime(), f)
	})
}
