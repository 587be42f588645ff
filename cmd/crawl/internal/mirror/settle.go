package mirror

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"html"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"
	"golang.org/x/sync/errgroup"

	"github.com/treadlight/crawl/internal/store/filename"
	"github.com/treadlight/crawl/internal/web/canonical"
)

// settle brings the copy up to date with what was fetched: the links, deleted files, and the start page. If the round
// has seen everything, it ends.
func (m *Mirror) settle(ctx context.Context, r *Report) error {
	x := m.index
	if m.full && m.o.Delete && !m.unsure.Load() {
		m.dropGone()
	}
	if err := m.rewriteAll(ctx); err != nil {
		return err
	}
	for _, file := range slices.Sorted(maps.Keys(x.stale)) {
		if err := m.remove(file); err != nil {
			return err
		}
	}
	clear(x.stale)
	if err := m.startPage(r); err != nil {
		return err
	}
	x.head.Open, x.head.Full = !m.full && !m.dead, false
	if err := m.compact(); err != nil || !m.full {
		return err
	}
	return os.RemoveAll(m.path(stateDir, "state"))
}

// gone reports whether a URL is one that the host no longer has, or that no link leads to.
func (m *Mirror) gone(e *entry) bool {
	return e.Round != m.round || e.Status == http.StatusNotFound || e.Status == http.StatusGone
}

// dropGone drops what is gone. For a URL that redirects now it drops the earlier copy. If another URL has its page from
// one that is gone, the page stays as that of the other URL.
func (m *Mirror) dropGone() {
	x := m.index
	heirs := make(map[string]string)
	for _, e := range x.all() {
		owner := x.get(e.Redirect)
		if e.File != "" || e.Status/100 == 3 || m.gone(e) {
			continue
		}
		if next := *e; heirs[e.Redirect] != "" {
			next.Redirect = heirs[e.Redirect]
			x.set(&next)
		} else if owner.File != "" && m.gone(&owner) {
			heirs[owner.URL] = e.URL
			next = owner
			next.URL, next.u, next.Round, next.Status, next.ETag, next.Modified, next.Change = e.URL, e.u, e.Round, e.Status, "", "", ""
			x.drop(&owner)
			x.set(&next)
		}
	}
	for _, e := range x.all() {
		switch {
		case m.gone(e):
			x.drop(e)
		case e.Redirect != "" && e.File != "":
			without := *e
			without.forget()
			x.set(&without)
		}
	}
}

// remove removes a file that belongs to no URL, and its directories if they are then empty.
func (m *Mirror) remove(file string) error {
	if m.index.claims[filename.Fold(file)] != "" {
		return nil
	}
	if err := os.Remove(m.path(filepath.FromSlash(file))); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for d := path.Dir(file); d != "." && os.Remove(m.path(filepath.FromSlash(d))) == nil; { // fails unless empty
		d = path.Dir(d)
	}
	return nil
}

// together is how many pages one goroutine writes in sequence. Those of a directory have most links in common.
const together = 64

// rewriteAll writes each page whose file would now differ.
func (m *Mirror) rewriteAll(ctx context.Context) error {
	pages := slices.DeleteFunc(m.index.all(), func(e *entry) bool { return e.File == "" || !e.packed() || !m.keeps(e.Type) })
	g, going := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for some := range slices.Chunk(pages, together) {
		g.Go(func() error {
			s := m.scratch.Get().(*scratch)
			defer m.free(s)
			for i, e := range some {
				if i == 0 || some[i-1].u.Dir() != e.u.Dir() || path.Dir(some[i-1].File) != path.Dir(e.File) {
					s.writer.Forget()
				}
				if err := cmp.Or(going.Err(), m.rewrite(e, s)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return cmp.Or(g.Wait(), ctx.Err())
}

// rewrite writes a page with its current links, unless its file has them already.
func (m *Mirror) rewrite(e *entry, s *scratch) error {
	if whole, err := m.load(e, s); !whole {
		return err
	}
	out := s.writer.Write(e.u, &s.places, func(url string) (ref, fragment string, ok bool) {
		to, fragment := m.index.target(url)
		if to == nil || !m.keeps(to.Type) {
			return "", "", false
		}
		return relative(e.File, to.File), fragment, true
	})
	sum := xxhash.Sum64(out) | 1
	if sum == e.Written {
		return nil
	}
	if err := m.write(m.path(filepath.FromSlash(e.File)), out); err != nil {
		return err
	}
	e.Written = sum // the journal gets it when the round is over; after a kill the next run writes the file again
	return nil
}

// startPage writes the page that leads to the seeds, and records the file of the first seed that has one. With --keep
// it writes none, as the copy may have no page to lead to.
func (m *Mirror) startPage(r *Report) error {
	var first, list strings.Builder
	for _, seed := range m.o.Seeds {
		u, err := canonical.ParseTyped(seed)
		to, fragment := m.index.target(u.String())
		if err != nil || to == nil || len(m.o.Keep) > 0 {
			continue
		}
		ref := html.EscapeString(relative("index.html", to.File) + fragment)
		if r.Entry == "" {
			r.Entry = to.File
			fmt.Fprintf(&first, "<meta http-equiv=\"refresh\" content=\"0; url=%s\">\n", ref)
		} else {
			first.Reset() // with several seeds the user chooses
		}
		fmt.Fprintf(&list, "<p><a href=\"%s\">%s</a></p>\n", ref, html.EscapeString(seed))
	}
	if r.Entry == "" {
		return nil
	}
	name, text := m.path("index.html"), "<!DOCTYPE html>\n<meta charset=\"utf-8\">\n<title>Mirror</title>\n"+first.String()+list.String()
	if was, err := os.ReadFile(name); err == nil && string(was) == text {
		return nil
	}
	return m.write(name, []byte(text))
}
