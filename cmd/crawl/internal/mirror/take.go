package mirror

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/cespare/xxhash/v2"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/cmd/crawl/internal/mirror/rewrite"
	"github.com/treadlight/crawl/internal/web/canonical"
)

const (
	// maxDocument bounds what is rewritten; larger files are kept as they came.
	maxDocument = 32 << 20
	// inMemory is what a file of another kind may have before it goes to the disk as it comes.
	inMemory = 1 << 20
	// maxChain bounds how many times a part may lead to a part: a frame to a frame, a style sheet to another.
	maxChain = 8
)

// The keys of what a part was asked for by.
const (
	metaAs    = "as"
	metaChain = "chain"
	metaGuess = "guess" // that it is not there is no failure
)

// take writes what came of a URL. It is the handler of all bodies.
func (m *Mirror) take(_ context.Context, p *crawl.Page, body io.Reader) error {
	if m.failure() != nil {
		return nil
	}
	u, err := m.parse(p.URL.String())
	if err != nil {
		return err
	}
	b := m.bodies.Get().(*bytes.Buffer)
	defer func() {
		if b.Reset(); b.Cap() <= inMemory {
			m.bodies.Put(b)
		}
	}()
	_, err = io.CopyN(b, body, 512)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	first := b.Bytes()
	e := &entry{
		URL: u.String(), Type: typeOf(p.ContentType, path.Ext(p.URL.Path), first), Charset: p.Charset, Round: m.round, Status: p.Status,
		ETag: p.Header.Get("ETag"), Modified: p.Header.Get("Last-Modified"), u: u,
	}
	as, _ := strconv.Atoi(p.Meta(metaAs))
	e.Kind = kindOf(e.Type, rewrite.Kind(as))
	if e.Kind == rewrite.Opaque && !m.keeps(e.Type) {
		return nil // the rest of it is left with the host
	}
	whole := int64(inMemory)
	if e.Kind != rewrite.Opaque {
		whole = maxDocument
	}
	if err == nil {
		_, err = io.CopyN(b, body, whole)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if int64(b.Len()) > whole {
		e.Kind = rewrite.Opaque
		return m.takeLarge(e, io.MultiReader(b, body))
	}
	e.Size, e.Sum = int64(b.Len()), xxhash.Sum64(b.Bytes())
	err = m.keep(e, func(file string) (err error) {
		if e.packed() {
			e.At, err = m.pack.add(b.Bytes())
			return err
		}
		return m.write(file, b.Bytes())
	})
	if err != nil {
		m.fail(err)
		return nil
	}
	m.follow(p, e, b.Bytes())
	return nil
}

// parse is canonical.Parse of an absolute URL, which is faster beside another one of its host.
func (m *Mirror) parse(url string) (canonical.URL, error) {
	last, _ := m.last.Load().(canonical.URL)
	u, err := last.Resolve(url)
	if err == nil {
		m.last.Store(u)
	}
	return u, err
}

// takeLarge writes a file as it comes.
func (m *Mirror) takeLarge(e *entry, body io.Reader) error {
	temp := m.tempName()
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		m.fail(err)
		return nil
	}
	defer func() { _ = os.Remove(temp) }() // it is gone if it was renamed
	hash := xxhash.New()
	to := &writer{w: io.MultiWriter(f, hash)}
	e.Size, err = io.Copy(to, body)
	if errClose := f.Close(); err == nil && errClose != nil {
		err, to.err = errClose, errClose
	}
	if err == nil {
		e.Sum = hash.Sum64()
		err = m.keep(e, func(file string) error { return m.rename(temp, file) })
		to.err = err
	}
	if to.err != nil {
		m.fail(to.err)
		return nil
	}
	return err // of the host
}

// writer tells an error of the disk from one of the host.
type writer struct {
	w   io.Writer
	err error
}

func (w *writer) Write(p []byte) (int, error) {
	n, err := w.w.Write(p)
	if err != nil {
		w.err = err
	}
	return n, err
}

// keep has an entry be that of its URL, with its file written by write unless the bytes are those that are there.
func (m *Mirror) keep(e *entry, write func(file string) error) error {
	old := m.index.get(e.URL)
	e.File, e.Shared = m.index.assign(e.u, e.Type, e.Sum, e.Size)
	switch {
	case old.File == "":
		e.Change = changeNew
	case old.Sum != e.Sum || old.Size != e.Size:
		e.Change = changeChanged
	}
	if old.Round == m.round && old.Change != "" { // asked for twice, as after a kill
		e.Change = old.Change
	}
	if old.Stale = append(old.Stale, old.File); old.File == "" || old.File == e.File || old.Shared {
		old.Stale = old.Stale[:len(old.Stale)-1]
	}
	e.Stale = old.Stale
	same := old.Shared == e.Shared && old.File == e.File && old.Sum == e.Sum && old.Size == e.Size && old.Kind == e.Kind && old.Charset == e.Charset
	if same {
		e.Written, e.At = old.Written, old.At
	} else if !e.Shared {
		if err := write(m.path(filepath.FromSlash(e.File))); err != nil {
			return err
		}
	}
	return m.index.put(e)
}

func (m *Mirror) tempName() string {
	return m.path(stateDir, "tmp", strconv.FormatInt(m.temp.Add(1), 36))
}

// write puts a whole file in its place.
func (m *Mirror) write(file string, content []byte) error {
	temp := m.tempName()
	if err := os.WriteFile(temp, content, 0o666); err != nil { // less what the user's mask forbids
		_ = os.Remove(temp)
		return err
	}
	return m.rename(temp, file)
}

// rename puts a temporary file in its place, in a directory that may have to be made.
func (m *Mirror) rename(temp, file string) error {
	err := os.Rename(temp, file)
	if errors.Is(err, fs.ErrNotExist) {
		if err = os.MkdirAll(filepath.Dir(file), 0o777); err == nil {
			err = os.Rename(temp, file)
		}
	}
	if err != nil {
		_ = os.Remove(temp)
	}
	return err
}

// done notes what became of a URL that brought no body to keep.
func (m *Mirror) done(_ context.Context, p *crawl.Page) error {
	if m.failure() != nil {
		return nil
	}
	url := p.URL.String()
	old := m.index.get(url)
	e := old
	switch {
	case p.Status == http.StatusNotModified && old.File != "":
		e.Round, e.Status, e.Err = m.round, p.Status, ""
		if old.Round != m.round {
			e.Change = ""
		}
		if err := m.index.put(&e); err != nil {
			m.fail(err)
		}
		m.followKept(p, &e)
		return nil
	case p.Status/100 == 2 && p.Err == nil:
		if old.Round == m.round && old.Status == p.Status || len(m.o.Keep) > 0 { // take had it
			return nil
		}
		return m.take(context.Background(), p, bytes.NewReader(p.Body))
	}
	if p.Meta(metaGuess) != "" && old.File == "" && p.RedirectTo == "" {
		return nil
	}
	u, err := m.parse(url)
	if err != nil {
		return err
	}
	e.URL, e.u, e.Round, e.Status, e.Err, e.From, e.Change = url, u, m.round, p.Status, "", p.Referrer, ""
	switch {
	case p.RedirectTo != "":
		_, fragment, _ := strings.Cut(p.Header.Get("Location"), "#")
		e.Redirect = p.RedirectTo
		if fragment != "" {
			e.Redirect += rewrite.Fragment("#" + fragment)
		}
		m.followRedirect(p)
	case p.Err != nil:
		e.Err = p.Err.Error()
	case p.Status == http.StatusNotFound || p.Status == http.StatusGone:
		if e.Redirect = ""; e.File != "" {
			e.Change = changeGone
		}
	}
	if err := m.index.put(&e); err != nil {
		m.fail(err)
	}
	if e.File != "" && e.Redirect == "" && (!m.o.Delete || e.Change != changeGone) { // what stays needs what it is made of
		m.followKept(p, &e)
	}
	return nil
}

// skip notes a URL that is in scope and was not asked for, as robots.txt refuses it.
func (m *Mirror) skip(s crawl.Skipped) {
	switch s.Reason {
	case "seen", "nofollow", "page_links", "other_host", "other_domain", "other_prefix", "too_deep", "too_many_redirects", "excluded", "not_included",
		"trap", "budget", "host_pages", "frontier_full", "hosts_full", "sitemaps":
		return
	}
	u, err := canonical.Parse(s.URL)
	if err != nil {
		return
	}
	e := m.index.get(s.URL)
	if e.File != "" { // and what it leads to is not known to be there
		m.mu.Lock()
		m.unsure = true
		m.mu.Unlock()
	}
	e.URL, e.u, e.Round, e.Status, e.Err, e.From, e.Change = s.URL, u, m.round, 0, s.Reason+": "+s.Detail, s.Referrer, ""
	if err := m.index.put(&e); err != nil {
		m.fail(err)
	}
}

// followRedirect follows a part to where the scope does not lead.
func (m *Mirror) followRedirect(p *crawl.Page) {
	if chain := p.Meta(metaChain); chain != "" {
		m.part(p, p.RedirectTo, p.Meta(metaAs), p.Meta(metaGuess) != "")
	}
}

// followKept follows the links of a page that has not changed.
func (m *Mirror) followKept(p *crawl.Page, e *entry) {
	if !e.packed() || e.Shared {
		return
	}
	body, err := m.pack.read(e, nil)
	if err == nil {
		m.follow(p, e, body)
		return
	}
	if err = m.lose(e, err); err != nil {
		m.fail(err)
	}
}

// lose forgets a page whose bytes are damaged, which an error says. Others it returns.
func (m *Mirror) lose(e *entry, err error) error {
	if !errors.Is(err, errLost) {
		return err
	}
	now := *e
	now.forget()
	now.Err = errLost.Error()
	return m.index.put(&now)
}

// follow has the crawl ask for what a page leads to and is made of.
func (m *Mirror) follow(p *crawl.Page, e *entry, body []byte) {
	if e.Kind == rewrite.Opaque {
		return
	}
	polite := !m.o.Crawl.Scope.FollowNofollow
	nofollow := polite && strings.Contains(strings.ToLower(p.Header.Get("X-Robots-Tag")), "nofollow")
	d := e.document(body)
	if m.o.Crawl.Depth == 0 && !nofollow && p.Meta(metaChain) == "" {
		dir := xxhash.Sum64String(e.u.Dir())
		d.Skip = func(ref string, r rewrite.Role) bool { return m.seen.known(dir ^ xxhash.Sum64String(ref)*prime(r)) }
	}
	found := rewrite.Links(d, func(l rewrite.Link) {
		switch {
		case l.Role == rewrite.Outside:
		case l.Role != rewrite.Page:
			as := ""
			if l.As != rewrite.Opaque {
				as = strconv.Itoa(int(l.As))
			}
			m.part(p, l.URL.String(), as, l.Role == rewrite.Guess)
		case polite && (l.NoFollow || nofollow):
		default:
			m.page(p, l.URL.String())
		}
	})
	if e.Kind == rewrite.HTML && !found.Icon && m.seen.newIcon(e.u.Origin()) {
		m.part(p, e.u.Origin()+"/favicon.ico", "", true)
	}
}

// page follows a link to another page.
func (m *Mirror) page(p *crawl.Page, url string) {
	if !m.seen.fresh(url, false) {
		return
	}
	if f := p.Follow(url); f.Reason == "page_links" {
		m.seen.forget(url)
	}
}

// prime has the same reference for something else be another one.
func prime(r rewrite.Role) uint64 { return 0x9e3779b97f4a7c15 + 2*uint64(r) }

// maxSkipped bounds what is remembered of references.
const maxSkipped = 1 << 20

// seen is what this run has asked the crawl for. It is safe for concurrent use.
type seen struct {
	bounded bool // by depth: what was followed may have to be again, from nearer to a seed

	mu       sync.Mutex
	skipped  map[uint64]struct{} // hashes of references that were followed
	followed map[uint64]struct{} // hashes of URLs that are queued
	icons    map[string]bool     // hosts whose icon was asked for
}

// known reports whether a reference was followed from a page of the same directory, and notes it.
func (m *seen) known(ref uint64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, known := m.skipped[ref]; known {
		return true
	}
	if len(m.skipped) >= maxSkipped {
		clear(m.skipped)
	}
	m.skipped[ref] = struct{}{}
	return false
}

// part asks for what a page is made of.
func (m *Mirror) part(p *crawl.Page, url, as string, guess bool) {
	chain, _ := strconv.Atoi(p.Meta(metaChain))
	if chain++; chain > maxChain {
		return
	}
	if m.o.SameHost && !sameHost(url, p) || m.spares(url) || !m.seen.fresh(url, true) {
		return
	}
	options := []crawl.FollowOption{crawl.WithoutScope(), crawl.WithMeta(metaChain, strconv.Itoa(chain))}
	if as != "" {
		options = append(options, crawl.WithMeta(metaAs, as))
	}
	if guess {
		options = append(options, crawl.WithMeta(metaGuess, "1"))
	}
	if f := p.Follow(url, options...); f.Reason == "page_links" {
		m.seen.forget(url)
	}
}

func sameHost(url string, p *crawl.Page) bool {
	u, err := canonical.Parse(url)
	return err == nil && u.Host() == p.URL.Host
}

// fresh reports whether a URL is to be followed as a page, or as a part, and notes that it is now.
func (m *seen) fresh(url string, part bool) bool {
	if m.bounded {
		return true
	}
	h := xxhash.Sum64String(url)
	if part {
		h = ^h
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, known := m.followed[h]; known {
		return false
	}
	m.followed[h] = struct{}{}
	return true
}

// forget undoes fresh, for a link that the crawl did not take: another page may have it again.
func (m *seen) forget(url string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.skipped)
	delete(m.followed, xxhash.Sum64String(url))
	delete(m.followed, ^xxhash.Sum64String(url))
}

// newIcon reports whether the icon of a host was not asked for.
func (m *seen) newIcon(origin string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.icons[origin]
	m.icons[origin] = true
	return !known
}

// document is what an entry is read as.
func (e *entry) document(body []byte) *rewrite.Document {
	return &rewrite.Document{URL: e.u, Kind: e.Kind, Charset: e.Charset, Body: body}
}
