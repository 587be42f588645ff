package mirror

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"html"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"
	"golang.org/x/sync/errgroup"

	"github.com/treadlight/crawl/cmd/crawl/internal/mirror/rewrite"
)

// settle brings the copy to what has come: links, what is gone, the start page. If the round has seen all, it is over.
func (m *Mirror) settle(ctx context.Context, full bool) error {
	x := m.index
	var gone []string
	if full && m.o.Delete && !m.unsure {
		gone = m.dropGone()
	}
	if err := m.rewriteAll(ctx, false); err != nil {
		return err
	}
	for _, e := range x.all() {
		gone = append(gone, e.Stale...)
	}
	slices.Sort(gone)
	for _, file := range slices.Compact(gone) {
		if err := m.remove(file); err != nil {
			return err
		}
	}
	if err := m.startPage(); err != nil {
		return err
	}
	x.mu.Lock()
	for url, e := range x.entries {
		if len(e.Stale) > 0 {
			without := *e
			without.Stale = nil
			x.entries[url] = &without
		}
	}
	x.head.Open, x.head.Full = !full, false
	x.mu.Unlock()
	if err := m.repack(); err != nil { // the journal must not name a pack that is not whole
		return err
	}
	if err := x.compact(); err != nil {
		return err
	}
	if !full {
		return nil
	}
	return os.RemoveAll(m.path(stateDir, "state"))
}

// dropGone forgets what the hosts no longer have, or nothing leads to, and returns the files. Of a redirect the copy of
// what was there before goes.
func (m *Mirror) dropGone() (files []string) {
	x := m.index
	x.mu.Lock()
	defer x.mu.Unlock()
	for url, e := range x.entries {
		reached := e.Round == m.round
		if reached && e.Status != 404 && e.Status != 410 && (e.Redirect == "" || e.File == "") {
			continue
		}
		if e.File != "" && !e.Shared {
			files = append(files, e.File)
			delete(x.claims, folded(e.File))
		}
		if files = append(files, e.Stale...); reached && e.Redirect != "" {
			without := *e
			without.forget()
			without.Stale = nil
			x.entries[url] = &without
			continue
		}
		delete(x.entries, url)
	}
	// What shared a file that is gone has nothing any more.
	for url, e := range x.entries {
		if e.Shared && x.claims[folded(e.File)] == "" {
			delete(x.entries, url)
		}
	}
	return files
}

// remove removes a file that no URL has, and directories that are empty then.
func (m *Mirror) remove(file string) error {
	m.index.mu.Lock()
	owner := m.index.claims[folded(file)]
	m.index.mu.Unlock()
	if owner != "" {
		return nil
	}
	if err := os.Remove(m.path(filepath.FromSlash(file))); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for d := path.Dir(file); d != "."; d = path.Dir(d) {
		if os.Remove(m.path(filepath.FromSlash(d))) != nil { // it is not empty
			break
		}
	}
	return nil
}

// together is how many pages of a directory are written one after the other: they have most links in common.
const together = 64

// rewriteAll writes each page whose file would be another now; with fresh only those that have none yet.
func (m *Mirror) rewriteAll(ctx context.Context, fresh bool) error {
	g, going := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	var batch []*entry
	flush := func() {
		if pages := batch; len(pages) > 0 {
			g.Go(func() error { return m.rewritePages(going, pages) })
		}
		batch = nil
	}
	for e := range m.index.files() {
		if !e.packed() || fresh && e.Written != 0 || !m.keeps(e.Type) {
			continue
		}
		if len(batch) == together || len(batch) > 0 && (batch[0].u.Dir() != e.u.Dir() || path.Dir(batch[0].File) != path.Dir(e.File)) {
			flush()
		}
		batch = append(batch, e)
	}
	flush()
	return cmp.Or(g.Wait(), ctx.Err())
}

// writing is what a goroutine needs to write pages.
type writing struct {
	body []byte // of the page, as it came
	memo rewrite.Memo
}

// rewritePages writes pages of one directory.
func (m *Mirror) rewritePages(ctx context.Context, pages []*entry) error {
	w := m.writers.Get().(*writing)
	defer m.writers.Put(w)
	w.memo.Forget()
	for _, e := range pages {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := m.rewrite(e, w); err != nil {
			return err
		}
	}
	return nil
}

// rewrite writes a page with its links as they are now, if that is not what is there.
func (m *Mirror) rewrite(e *entry, w *writing) error {
	body, err := m.pack.read(e, w.body)
	if err != nil {
		return m.lose(e, err)
	}
	if w.body = body; cap(body) > inMemory { // too much to hold
		defer func() { *w = writing{} }()
	}
	d := e.document(body)
	d.Memo = &w.memo
	out := rewrite.Rewrite(d, func(l rewrite.Link) (string, bool) { return m.local(e, l) })
	sum := xxhash.Sum64(out) | 1
	if sum == e.Written {
		return nil
	}
	if err := m.write(m.path(filepath.FromSlash(e.File)), out); err != nil {
		return err
	}
	m.index.written(e, sum)
	return nil
}

// written notes what was written of an entry, unless it is another one by now. The journal has it when the round is
// over: a run that was killed before writes the same once more.
func (x *index) written(e *entry, sum uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.entries[e.URL] == e {
		next := *e
		next.Written = sum
		x.entries[e.URL] = &next
	}
}

// local is the reference from a page to the file that a link leads to; false: the copy does not have it.
func (m *Mirror) local(e *entry, l rewrite.Link) (string, bool) {
	file, fragment := m.index.target(l.URL.String())
	if file == "" || len(m.o.Keep) > 0 && !m.keeps(m.index.typeOf(file)) {
		return "", false
	}
	return relative(e.File, file) + rewrite.Fragment(cmp.Or(l.Fragment, fragment)), true
}

// entry is the file to open: that of the first seed that has one. Empty: none has.
func (m *Mirror) entry() string {
	if len(m.o.Keep) > 0 {
		return ""
	}
	for _, seed := range m.o.Seeds {
		if file, _ := m.index.target(seedURL(seed)); file != "" {
			return file
		}
	}
	return ""
}

// startPage writes the page that leads to what was asked for.
func (m *Mirror) startPage() error {
	if len(m.o.Keep) > 0 { // it may have no page to lead to
		return nil
	}
	var files, names []string
	for _, seed := range m.o.Seeds {
		if file, fragment := m.index.target(seedURL(seed)); file != "" {
			files, names = append(files, relative("index.html", file)+fragment), append(names, seed)
		}
	}
	if len(files) == 0 {
		return nil
	}
	var b strings.Builder
	b.WriteString("<!DOCTYPE html>\n<meta charset=\"utf-8\">\n<title>Mirror</title>\n")
	if len(files) == 1 {
		fmt.Fprintf(&b, "<meta http-equiv=\"refresh\" content=\"0; url=%s\">\n", html.EscapeString(files[0]))
	}
	for i, file := range files {
		fmt.Fprintf(&b, "<p><a href=\"%s\">%s</a></p>\n", html.EscapeString(file), html.EscapeString(names[i]))
	}
	name := m.path("index.html")
	if was, err := os.ReadFile(name); err == nil && string(was) == b.String() {
		return nil
	}
	return m.write(name, []byte(b.String()))
}
