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
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/cespare/xxhash/v2"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/cmd/crawl/internal/mirror/rewrite"
	"github.com/treadlight/crawl/internal/config"
	"github.com/treadlight/crawl/internal/frontier/version"
	"github.com/treadlight/crawl/internal/web/canonical"
	"github.com/treadlight/crawl/internal/web/extract"
	"github.com/treadlight/crawl/internal/web/mediatype"
)

const (
	maxDocument = 32 << 20 // bytes of a document that is rewritten; a larger one stays as received
	inMemory    = 1 << 20  // bytes of another file in memory, and of memory that is kept for reuse
	maxChain    = 8        // how many parts may lead to a part, as a frame to a frame
)

// Keys of the metadata with which a part was requested.
const (
	metaAs    = "as"
	metaChain = "chain"
	metaGuess = "guess" // its absence is not a failure
)

// scratch is the memory for receiving or writing a document or file.
type scratch struct {
	came   bytes.Buffer // a document as received, and its places
	places rewrite.Places
	writer rewrite.Writer
}

func (m *Mirror) free(s *scratch) {
	if s.came.Reset(); s.came.Cap() <= 2*inMemory {
		m.scratch.Put(s)
	}
}

// grow gives the buffer room for n bytes in all. Unlike [bytes.Buffer.Grow] it does not clear memory that is new.
func (s *scratch) grow(n int) {
	if s.came.Cap() < n {
		s.came = *bytes.NewBuffer(append(make([]byte, 0, n), s.came.Bytes()...))
	}
}

// take is the handler of all bodies: it writes a received body to the copy, or to the pack.
func (m *Mirror) take(_ context.Context, p *crawl.Page, body io.Reader) error {
	if m.failure() != nil {
		return nil
	}
	s := m.scratch.Get().(*scratch)
	defer m.free(s)
	_, err := io.CopyN(&s.came, body, 512)
	e := &entry{
		URL: p.URL.String(), Type: mediatype.OfBody(p.ContentType, path.Ext(p.URL.Path), s.came.Bytes()), Charset: p.Charset, Round: m.round, Status: p.Status,
	}
	e.ETag, e.Modified = version.Validators(p.Header)
	e.u = canonical.Restore(e.URL)
	if e.Kind = kindOf(e.Type, askedAs(p)); err == nil && e.packed() {
		length, _ := strconv.Atoi(p.Header.Get("Content-Length")) // zero if the header does not say it
		s.grow(min(max(0, length), 4*inMemory) * 5 / 4)           // with its places, as growing step by step copies it all
		if _, err = io.CopyN(&s.came, body, maxDocument); err == nil {
			e.Kind = rewrite.Opaque
		}
	}
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		return err
	case !e.packed() && !m.keeps(e.Type):
		return nil // the rest is not read
	case !e.packed():
		return m.takeFile(e, &s.came, body)
	}
	e.Size, e.Sum = int64(s.came.Len()), xxhash.Sum64(s.came.Bytes())
	s.read(e, s.came.Bytes())
	m.fail(m.keep(e, func(string) (err error) {
		e.places, _ = s.came.Write(s.places.Append(s.came.AvailableBuffer())) // a Buffer never fails
		e.At, err = m.pack.add(s.came.Bytes())
		return err
	}))
	m.follow(p, e, s)
	return nil
}

// takeFile writes a file as it is received.
func (m *Mirror) takeFile(e *entry, b *bytes.Buffer, body io.Reader) error {
	temp := m.tempName()
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666) // the umask of the user takes bits away
	if err != nil {
		m.fail(err)
		return nil
	}
	defer func() { _ = os.Remove(temp) }() // it may have been renamed
	var lost error                         // of the connection
	hash := xxhash.New()
	for err == nil && lost == nil {
		_, lost = io.CopyN(b, body, inMemory/4)
		e.Size += int64(b.Len())
		_, _ = hash.Write(b.Bytes()) // a hash never fails
		_, err = f.Write(b.Bytes())
		b.Reset()
	}
	if err = errors.Join(err, f.Close()); err == nil && !errors.Is(lost, io.EOF) {
		return lost
	}
	if e.Sum = hash.Sum64(); err == nil {
		err = m.keep(e, func(file string) error { return rename(temp, file) })
	}
	m.fail(err)
	return nil
}

// keep makes e the entry of its URL. It calls write to write the file, unless the copy has the same bytes already.
func (m *Mirror) keep(e *entry, write func(file string) error) error {
	old := m.index.get(e.URL)
	if e.File, e.Redirect = m.index.assign(e); e.Redirect != "" {
		return m.index.put(&entry{URL: e.URL, Redirect: e.Redirect, Round: e.Round, Status: e.Status, u: e.u})
	}
	switch {
	case old.Round == m.round && old.Change != "": // requested twice, as after a kill
		e.Change = old.Change
	case old.File == "":
		e.Change = changeNew
	case old.Sum != e.Sum || old.Size != e.Size:
		e.Change = changeChanged
	}
	if old.File == e.File && old.Sum == e.Sum && old.Size == e.Size && old.Kind == e.Kind && old.Charset == e.Charset {
		e.Written, e.At, e.places = old.Written, old.At, old.places
	} else if err := write(m.path(filepath.FromSlash(e.File))); err != nil {
		return err
	}
	return m.index.put(e)
}

func (m *Mirror) tempName() string {
	return m.path(stateDir, "tmp", strconv.FormatInt(m.temp.Add(1), 36))
}

// write writes a whole file and moves it to its place.
func (m *Mirror) write(file string, content []byte) error {
	temp := m.tempName()
	err := os.WriteFile(temp, content, 0o666) // the umask of the user takes bits away
	if err == nil {
		err = rename(temp, file)
	}
	if err != nil {
		_ = os.Remove(temp)
	}
	return err
}

// rename moves a temporary file to its place. It creates the directory if it does not exist.
func rename(temp, file string) error {
	err := os.Rename(temp, file)
	if errors.Is(err, fs.ErrNotExist) {
		if err = os.MkdirAll(filepath.Dir(file), 0o777); err == nil {
			err = os.Rename(temp, file)
		}
	}
	return err
}

// done records the outcome of a URL without a body to keep.
func (m *Mirror) done(ctx context.Context, p *crawl.Page) error {
	url := p.URL.String()
	old := m.index.get(url)
	e := old
	if old.Round != m.round {
		e.Change = ""
	}
	e.URL, e.u, e.Round, e.Status, e.Err = url, canonical.Restore(url), m.round, p.Status, ""
	guess, same := p.Meta(metaGuess) != "", p.Status == http.StatusNotModified && old.File != ""
	if !same {
		e.From, e.Change = p.Referrer, ""
	}
	switch {
	case m.failure() != nil:
		return nil
	case same:
	case p.Status/100 == 2 && p.Err == nil:
		if old.Round == m.round && old.Status == p.Status || len(m.o.Keep) > 0 { // take has handled it
			return nil
		}
		return m.take(ctx, p, bytes.NewReader(p.Body))
	case p.RedirectTo != "":
		e.Redirect = p.RedirectTo
		if _, fragment, _ := strings.Cut(p.Header.Get("Location"), "#"); fragment != "" {
			e.Redirect += rewrite.Escape("#" + fragment)
		}
	case guess && old.File == "":
		return nil
	case p.Err != nil:
		e.Err = p.Err.Error()
	case p.Status == http.StatusNotFound || p.Status == http.StatusGone:
		if e.Redirect = ""; e.File != "" {
			e.Change = changeGone
		}
	}
	m.fail(m.index.put(&e))
	switch to, err := canonical.Parse(e.Redirect); {
	case err != nil:
	case p.Meta(metaChain) != "": // the target of a part may be outside the scope
		m.part(p, to, askedAs(p), guess)
	case p.RedirectTo == "": // it failed, and the copy keeps what it led to
		m.ask(p, to)
	}
	if e.File == "" || e.Redirect != "" || !e.packed() || m.o.Delete && e.Change == changeGone {
		return nil
	}
	s := m.scratch.Get().(*scratch)
	defer m.free(s)
	whole, err := m.load(&e, s)
	if m.fail(err); whole {
		m.follow(p, &e, s) // it has not changed, and needs its parts
	}
	return nil
}

// skip records a URL in scope that was not requested, for example because robots.txt disallows it.
func (m *Mirror) skip(s crawl.Skipped) {
	u, err := canonical.Parse(s.URL)
	if err != nil || slices.Contains([]string{
		"seen", "nofollow", "page_links", "other_host", "other_domain", "other_prefix", "too_deep", "too_many_redirects", "excluded", "not_included",
		"trap", "budget", "host_pages", "frontier_full", "hosts_full", "sitemaps",
	}, s.Reason) {
		return
	}
	e := m.index.get(s.URL)
	if e.File != "" { // its links may lead to what no other page does
		m.unsure.Store(true)
	}
	e.URL, e.u, e.Round, e.Status, e.Err, e.From, e.Change = s.URL, u, m.round, 0, s.Reason+": "+s.Detail, s.Referrer, ""
	m.fail(m.index.put(&e))
}

// load reads a document from the pack and finds its places. It reports whether its bytes are whole, else it forgets it.
func (m *Mirror) load(e *entry, s *scratch) (whole bool, err error) {
	s.came.Reset()
	s.grow(int(e.Size) + e.places)
	body, places, whole := m.pack.read(e, s.came.AvailableBuffer())
	if !whole {
		now := *e
		now.forget()
		now.Err = "the page as it came is damaged: it is fetched again by the next run"
		return false, m.index.put(&now)
	}
	if !s.places.Load(body, places) {
		s.read(e, body)
	}
	return true, nil
}

func (s *scratch) read(e *entry, body []byte) {
	s.places.Read(&rewrite.Document{URL: e.u, Kind: e.Kind, Charset: e.Charset, Body: body})
}

// follow has the crawl request the pages that a document leads to, and its parts.
func (m *Mirror) follow(p *crawl.Page, e *entry, s *scratch) {
	polite := !m.o.Crawl.Scope.FollowNofollow
	nofollow := false
	for _, value := range p.Header["X-Robots-Tag"] {
		for word := range extract.Directives(value, strings.ToLower(config.Product), true) {
			nofollow = nofollow || word == "nofollow" || word == "none"
		}
	}
	dir := xxhash.Sum64String(e.u.Dir())
	for l := range s.places.Links {
		ref, _, _ := bytes.Cut(l.Ref, []byte("#"))
		known := canonical.Portable(ref) && p.Meta(metaChain) == "" // it means the same on every page of the directory
		if l.Role == rewrite.Outside || l.Role == rewrite.Page && polite && (l.NoFollow || nofollow) || known && !m.first(dir, ref, l.Role) {
			continue
		}
		u, err := e.u.ResolveBytes(ref)
		switch {
		case err != nil:
		case l.Role != rewrite.Page:
			m.part(p, u, l.As, l.Role == rewrite.Guess)
		case m.first(0, []byte(u.String()), l.Role):
			m.ask(p, u)
		}
	}
	if icon, err := e.u.Resolve("/favicon.ico"); e.Kind == rewrite.HTML && !s.places.Icon && err == nil {
		m.part(p, icon, rewrite.Opaque, true)
	}
}

// askedAs returns how the page that led to a part reads it.
func askedAs(p *crawl.Page) rewrite.Kind {
	as, _ := strconv.ParseUint(p.Meta(metaAs), 10, 8) // a page has none
	return rewrite.Kind(as)
}

// part has the crawl request a part of a page.
func (m *Mirror) part(p *crawl.Page, u canonical.URL, as rewrite.Kind, guess bool) {
	chain, _ := strconv.Atoi(p.Meta(metaChain))
	if chain >= maxChain || m.o.SameHost && u.Host() != p.URL.Host || m.spares(u) || !m.first(0, []byte(u.String()), rewrite.Part) {
		return
	}
	options := []crawl.FollowOption{crawl.WithoutScope(), crawl.WithMeta(metaChain, strconv.Itoa(chain+1))}
	if as != rewrite.Opaque {
		options = append(options, crawl.WithMeta(metaAs, strconv.Itoa(int(as))))
	}
	if guess {
		options = append(options, crawl.WithMeta(metaGuess, "1"))
	}
	m.ask(p, u, options...)
}

// ask has the crawl request a URL. If the page has too many links, another page may request the URL again.
func (m *Mirror) ask(p *crawl.Page, u canonical.URL, options ...crawl.FollowOption) {
	if p.Follow(u.String(), options...).Reason == "page_links" {
		m.seen.clear()
	}
}

// maxSeen bounds how many requested links are remembered. The crawl itself knows what was requested, but asking it takes
// longer.
const maxSeen = 1 << 20

// seen is what a run has requested of the crawl.
type seen struct {
	mu  sync.Mutex
	all map[uint64]struct{}
}

func (s *seen) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.all)
}

// first reports whether a reference was not yet followed from a page of the same directory, and records it. The
// directory 0 is for absolute URLs.
func (m *Mirror) first(dir uint64, ref []byte, r rewrite.Role) bool {
	key := dir ^ xxhash.Sum64(ref)*(0x9e3779b97f4a7c15+2*uint64(r))
	m.seen.mu.Lock()
	defer m.seen.mu.Unlock()
	n := len(m.seen.all)
	if n >= maxSeen {
		clear(m.seen.all)
	}
	m.seen.all[key] = struct{}{}
	return n != len(m.seen.all) || m.o.Crawl.Depth != 0 // with a limit, a URL may be found again nearer to a seed
}
