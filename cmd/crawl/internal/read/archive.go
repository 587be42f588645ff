package read

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/internal/records/sink/warc"
)

// Archive is what archives (WARC) have of each URL. It is a [crawl.Fetcher] that answers from them.
type Archive struct {
	urls   []string         // in the order of the archives
	latest map[string]place // by URL, without those that say that nothing has changed
	bodies map[string]place // by the digest of the payload: the response that has it
}

// place is where the record of a response is.
type place struct {
	path   string
	offset int64
	digest string // of the payload, if another record has that
	status int
	media  string
}

// OpenArchive reads what archives have, which are the first of some arguments: files, or directories of files. It
// returns the other arguments. The archive is nil if there is none.
func OpenArchive(args []string) (a *Archive, rest []string, err error) {
	for ; len(args) > 0; args = args[1:] {
		files, _ := fs.Glob(os.DirFS(args[0]), "*.warc*") // none if it is no directory
		for i, name := range files {
			files[i] = filepath.Join(args[0], name)
		}
		if info, err := os.Stat(args[0]); err == nil && !info.IsDir() && strings.Contains(filepath.Base(args[0]), ".warc") {
			files = append(files, args[0])
		}
		if len(files) == 0 {
			break
		}
		if a == nil {
			a = &Archive{latest: make(map[string]place), bodies: make(map[string]place)}
		}
		for _, path := range files {
			if err := a.scan(path); err != nil {
				return nil, nil, cli.IOf("%s: %w", path, err)
			}
		}
	}
	return a, args, nil
}

// scan reads what a file has. It ignores a record at the end that is not whole.
func (a *Archive) scan(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it was only read
	for r := warc.NewReader(f); ; {
		rec, err := r.Next()
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return nil
		case err != nil:
			return err
		}
		kind, digest, url := rec.Get("WARC-Type"), rec.Get("WARC-Payload-Digest"), rec.Get("WARC-Target-URI")
		if kind != "response" && (kind != "revisit" || digest == "") {
			continue
		}
		res, err := http.ReadResponse(bufio.NewReader(rec.Block), nil)
		if err != nil {
			continue // of another protocol
		}
		_ = res.Body.Close() // only the head counts
		media, _, _ := strings.Cut(res.Header.Get("Content-Type"), ";")
		at := place{path, rec.Offset, digest, res.StatusCode, media}
		if kind == "response" {
			at.digest, a.bodies[digest] = "", at
		}
		if _, known := a.latest[url]; !known {
			a.urls = append(a.urls, url)
		}
		a.latest[url] = at
	}
}

// response returns the response at a place. Its Body closes the file.
func (p place) response(req *http.Request) (*http.Response, error) {
	f, err := os.Open(p.path)
	if err != nil {
		return nil, err
	}
	var res *http.Response
	rec, err := warc.NewReader(io.NewSectionReader(f, p.offset, 1<<62)).Next()
	if err == nil {
		res, err = http.ReadResponse(bufio.NewReader(rec.Block), req)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	res.Body = struct {
		io.Reader
		io.Closer
	}{res.Body, f}
	return res, nil
}

var errAbsent = errors.New("the archive does not have it; without a URL, read lists what is there")

// Fetch implements [crawl.Fetcher].
func (a *Archive) Fetch(_ context.Context, req *http.Request) (*http.Response, error) {
	at, ok := a.latest[req.URL.String()]
	if !ok {
		return nil, errAbsent
	}
	res, err := at.response(req)
	if err != nil || at.digest == "" {
		return res, err
	}
	same, err := a.bodies[at.digest].response(req)
	if err = errors.Join(err, res.Body.Close()); err != nil {
		return nil, fmt.Errorf("the response with the same body: %w", err)
	}
	res.Body = same.Body
	return res, nil
}

// List prints a line for each URL: status, media type, URL; or JSON of the same.
func (a *Archive) List(out io.Writer, inJSON bool) error {
	w := bufio.NewWriter(out)
	for _, url := range a.urls {
		at := a.latest[url]
		if !inJSON {
			cli.Say(w, "%d %-16s %s\n", at.status, cli.Clean(at.media), cli.Clean(url))
			continue
		}
		line := struct {
			URL         string `json:"url"`
			Status      int    `json:"status"`
			ContentType string `json:"content_type"`
		}{url, at.status, at.media}
		if err := json.NewEncoder(w).Encode(line); err != nil {
			return err
		}
	}
	return cli.Output(w.Flush())
}
