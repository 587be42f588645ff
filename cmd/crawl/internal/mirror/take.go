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
	"github.com/treadlight/crawl/internal/web/canonical"
	"github.com/treadlight/crawl/internal/web/extract"
)

const (
	maxDocument = 32 << 20 // what is rewritten; larger files are kept as they came
	inMemory    = 1 << 20  // of a file of another kind, and of memory that is used again
	maxChain    = 8        // how many times a part may lead to a part: a frame to a frame, a style sheet to another
)

// The keys of what a part was asked for by.
const (
	metaAs    = "as"
	metaChain = "chain"
	metaGuess = "guess" // that it is not there is no failure
)

// scratch is the memory that a page or file needs while it is taken, or written.
type scratch struct {
	came   bytes.Buffer
	body   []byte
	places rewrite.Places
	writer rewrite.Writer
}

func (m *Mirror) free(s *scratch) {
	if s.came.Reset(); s.came.Cap()+cap(s.body) <= 2*inMemory {
		m.scratch.Put(s)
	}
}

// take writes what came of a URL. It is the handler of all bodies.
func (m *Mirror) take(_ context.Context, p *crawl.Page, body io.Reader) error {
	if m.failure() != nil {
		return nil
	}
	s := m.scratch.Get().(*scratch)
	defer m.free(s)
	_, err := io.CopyN(&s.came, body, 512)
	e := &entry{
		URL: p.URL.String(), Type: typeOf(p.ContentType, path.Ext(p.URL.Path), s.came.Bytes()), Charset: p.Charset, Round: m.round, Status: p.Status,
		ETag: p.Header.Get("ETag"), Modified: p.Header.Get("Last-Modified"),
	}
	e.u = canonical.Restore(e.URL)
	as, _ := strconv.Atoi(p.Meta(metaAs))
	if e.Kind = kindOf(e.Type, rewrite.Kind(as)); err == nil && e.packed() {
		if _, err = io.CopyN(&s.came, body, maxDocument); err == nil {
			e.Kind = rewrite.Opaque
		}
	}
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		return err
	case !e.packed() && !m.keeps(e.Type):
		return nil // the rest of it is left with the host
	case !e.packed():
		return m.takeFile(e, &s.came, body)
	}
	e.Size, e.Sum = int64(s.came.Len()), xxhash.Sum64(s.came.Bytes())
	s.read(e, s.came.Bytes())
	m.fail(m.keep(e, func(string) (err error) {
		s.body = s.places.Append(s.body[:0])
		e.places, _ = s.came.Write(s.body) // it cannot fail
		e.At, err = m.pack.add(s.came.Bytes())
		return err
	}))
	m.follow(p, e, s)
	return nil
}

// takeFile writes a file as it comes.
func (m *Mirror) takeFile(e *entry, b *bytes.Buffer, body io.Reader) error {
	temp := m.tempName()
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666) // less what the user's mask forbids
	if err != nil {
		m.fail(err)
		return nil
	}
	defer func() { _ = os.Remove(temp) }() // it is gone if it was renamed
	var lost error                         // with the host
	hash := xxhash.New()
	for err == nil && lost == nil {
		_, lost = io.CopyN(b, body, inMemory/4)
		e.Size += int64(b.Len())
		_, _ = hash.Write(b.Bytes()) // it cannot fail
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

// keep has an entry be that of its URL, with its file written by write unless the bytes are those that are there.
func (m *Mirror) keep(e *entry, write func(file string) error) error {
	old := m.index.get(e.URL)
	if e.File, e.Redirect = m.index.assign(e); e.Redirect != "" {
		return m.index.put(&entry{URL: e.URL, Redirect: e.Redirect, Round: e.Round, Status: e.Status, u: e.u})
	}
	switch {
	case old.Round == m.round && old.Change != "": // asked for twice, as after a kill
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

// write puts a whole file in its place.
func (m *Mirror) write(file string, content []byte) error {
	temp := m.tempName()
	err := os.WriteFile(temp, content, 0o666) // less what the user's mask forbids
	if err == nil {
		err = rename(temp, file)
	}
	if err != nil {
		_ = os.Remove(temp)
	}
	return err
}

// rename puts a temporary file in its place, in a directory that may have to be made.
func rename(temp, file string) error {
	err := os.Rename(temp, file)
	if errors.Is(err, fs.ErrNotExist) {
		if err = os.MkdirAll(filepath.Dir(file), 0o777); err == nil {
			err = os.Rename(temp, file)
		}
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
	if old.Round != m.round {
		e.Change = ""
	}
	e.URL, e.u, e.Round, e.Status, e.Err = url, canonical.Restore(url), m.round, p.Status, ""
	same := p.Status == http.StatusNotModified && old.File != ""
	switch {
	case same:
	case p.Status/100 == 2 && p.Err == nil:
		if old.Round == m.round && old.Status == p.Status || len(m.o.Keep) > 0 { // take had it
			return nil
		}
		return m.take(context.Background(), p, bytes.NewReader(p.Body))
	case p.Meta(metaGuess) != "" && old.File == "" && p.RedirectTo == "":
		return nil
	default:
		e.From, e.Change = p.Referrer, ""
	}
	switch {
	case same:
	case p.RedirectTo != "":
		e.Redirect = p.RedirectTo
		if _, fragment, _ := strings.Cut(p.Header.Get("Location"), "#"); fragment != "" {
			e.Redirect += rewrite.Fragment("#" + fragment)
		}
		if p.Meta(metaChain) != "" { // a part, to where the scope does not lead
			m.part(p, canonical.Restore(p.RedirectTo), p.Meta(metaAs), p.Meta(metaGuess) != "")
		}
	case p.Err != nil:
		e.Err = p.Err.Error()
	case p.Status == http.StatusNotFound || p.Status == http.StatusGone:
		if e.Redirect = ""; e.File != "" {
			e.Change = changeGone
		}
	}
	m.fail(m.index.put(&e))
	if e.File != "" && e.Redirect == "" && e.packed() && (!m.o.Delete || e.Change != changeGone) { // what stays needs what it is made of
		m.followKept(p, &e)
	}
	return nil
}

// skip notes a URL that is in scope and was not asked for, as robots.txt refuses it.
func (m *Mirror) skip(s crawl.Skipped) {
	u, err := canonical.Parse(s.URL)
	if err != nil || slices.Contains([]string{
		"seen", "nofollow", "page_links", "other_host", "other_domain", "other_prefix", "too_deep", "too_many_redirects", "excluded", "not_included",
		"trap", "budget", "host_pages", "frontier_full", "hosts_full", "sitemaps",
	}, s.Reason) {
		return
	}
	e := m.index.get(s.URL)
	if e.File != "" { // and what it leads to is not known to be there
		m.unsure.Store(true)
	}
	e.URL, e.u, e.Round, e.Status, e.Err, e.From, e.Change = s.URL, u, m.round, 0, s.Reason+": "+s.Detail, s.Referrer, ""
	m.fail(m.index.put(&e))
}

// followKept follows the links of a page that has not changed.
func (m *Mirror) followKept(p *crawl.Page, e *entry) {
	s := m.scratch.Get().(*scratch)
	defer m.free(s)
	if err := m.load(e, s); err != nil {
		m.fail(m.lose(e, err))
		return
	}
	m.follow(p, e, s)
}

// load has the places of a page that is in the pack.
func (m *Mirror) load(e *entry, s *scratch) error {
	body, places, err := m.pack.read(e, s.body)
	if err != nil {
		return err
	}
	if s.body = body; !s.places.Load(body, places) {
		s.read(e, body)
	}
	return nil
}

func (s *scratch) read(e *entry, body []byte) {
	s.places.Read(&rewrite.Document{URL: e.u, Kind: e.Kind, Charset: e.Charset, Body: body})
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

// agent is our name in X-Robots-Tag.
var agent = strings.ToLower(config.Product)

// follow has the crawl ask for what a page leads to and is made of.
func (m *Mirror) follow(p *crawl.Page, e *entry, s *scratch) {
	polite := !m.o.Crawl.Scope.FollowNofollow
	nofollow := false
	for _, value := range p.Header["X-Robots-Tag"] {
		for word := range extract.Directives(value, agent, true) {
			nofollow = nofollow || word == "nofollow" || word == "none"
		}
	}
	dir := xxhash.Sum64String(e.u.Dir())
	for l := range s.places.Links {
		known := canonical.Portable(l.Ref) && p.Meta(metaChain) == "" // which says the same on every page of the directory
		if l.Role == rewrite.Outside || l.Role == rewrite.Page && polite && (l.NoFollow || nofollow) || known && !m.seen.first(dir, l.Ref, l.Role) {
			continue
		}
		u, err := e.u.ResolveBytes(l.Ref)
		switch {
		case err != nil:
		case l.Role != rewrite.Page:
			m.part(p, u, as(l.As), l.Role == rewrite.Guess)
		case m.seen.first(0, []byte(u.String()), l.Role):
			m.ask(p, u)
		}
	}
	if icon, err := e.u.Resolve("/favicon.ico"); e.Kind == rewrite.HTML && !s.places.Icon && err == nil {
		m.part(p, icon, "", true)
	}
}

func as(kind rewrite.Kind) string {
	if kind == rewrite.Opaque {
		return ""
	}
	return strconv.Itoa(int(kind))
}

// part asks for what a page is made of.
func (m *Mirror) part(p *crawl.Page, u canonical.URL, as string, guess bool) {
	chain, _ := strconv.Atoi(p.Meta(metaChain))
	if chain >= maxChain || m.o.SameHost && u.Host() != p.URL.Host || m.spares(u) || !m.seen.first(0, []byte(u.String()), rewrite.Part) {
		return
	}
	options := []crawl.FollowOption{crawl.WithoutScope(), crawl.WithMeta(metaChain, strconv.Itoa(chain+1))}
	if as != "" {
		options = append(options, crawl.WithMeta(metaAs, as))
	}
	if guess {
		options = append(options, crawl.WithMeta(metaGuess, "1"))
	}
	m.ask(p, u, options...)
}

// ask has the crawl ask for a URL. What it does not take another page may have again.
func (m *Mirror) ask(p *crawl.Page, u canonical.URL, options ...crawl.FollowOption) {
	if p.Follow(u.String(), options...).Reason == "page_links" {
		m.seen.forget()
	}
}

// maxSeen bounds what is remembered of links: the crawl knows itself what it was asked for, but it takes longer to say so.
const maxSeen = 1 << 20

// seen is what this run has asked the crawl for. It is safe for concurrent use.
type seen struct {
	none bool // nothing is: what was followed may have to be again, from nearer to a seed

	mu     sync.Mutex
	hashes map[uint64]struct{}
}

// first reports whether a reference was not followed from a page of the same directory, and notes it. Directory 0 is that of
// URLs.
func (m *seen) first(dir uint64, ref []byte, r rewrite.Role) bool {
	h := dir ^ xxhash.Sum64(ref)*(0x9e3779b97f4a7c15+2*uint64(r))
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, known := m.hashes[h]; known && !m.none {
		return false
	}
	if len(m.hashes) >= maxSeen {
		clear(m.hashes)
	}
	m.hashes[h] = struct{}{}
	return true
}

func (m *seen) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.hashes)
}
