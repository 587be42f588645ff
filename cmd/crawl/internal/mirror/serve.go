package mirror

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/internal/observe/endpoint"
	"github.com/treadlight/crawl/internal/web/mediatype"
)

// policy lets a page load only what is in the copy. Its links may lead elsewhere.
const policy = "default-src 'self' data: blob: 'unsafe-inline' 'unsafe-eval'; form-action 'none'"

// Serve serves a copy at an address of this machine until ctx ends. It calls listening with the URL. Pages that use
// modules, or pictures from one SVG file, need a server: browsers do not load these from files.
func Serve(ctx context.Context, dir, addr string, listening func(url string)) error {
	at, err := endpoint.ParseAddress(addr)
	if err != nil || at.Check("") != nil {
		return cli.Usagef("--serve %q: give an address of this machine, such as 127.0.0.1:8080", addr)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return cli.Open("the mirror", err)
	}
	defer func() { _ = root.Close() }() // it was only read
	l, at, err := at.Listen()
	if err != nil {
		return cli.IOf("open --serve: %w", cli.Cause(err))
	}
	server := &http.Server{Handler: handler(root, at), ReadHeaderTimeout: 10 * time.Second}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	listening(at.URL())
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return cli.IO(err)
	}
	return nil
}

// handler serves the files of a copy, but not its state. It refuses names of other hosts. Otherwise any site could read
// the copy through a name of its own that resolves to this machine.
func handler(root *os.Root, at endpoint.Address) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !at.AnswersTo(r.Host) {
			http.Error(w, "this is not the host that was asked for", http.StatusMisdirectedRequest)
			return
		}
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
