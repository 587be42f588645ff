package mirror

import (
	"context"
	"fmt"
	"hash/fnv"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/internal/store/filename"
	_ "github.com/treadlight/crawl/sqlite"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// answer is the response of a site.
type answer struct {
	status    int // zero means 200
	mediaType string
	body      string
	location  string
	cut       bool // it ends in the middle of the body
}

// site answers by path and query. Every response has an ETag and supports conditional requests.
type site struct {
	*httptest.Server

	mu      sync.Mutex
	answers map[string]answer
	asked   map[string]int
	same    map[string]int // how often each was answered with 304
}

func newSite(t *testing.T, answers map[string]answer) *site {
	s := &site{answers: answers, asked: map[string]int{}, same: map[string]int{}}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked[r.RequestURI]++
	a, ok := s.answers[r.RequestURI]
	if !ok {
		http.NotFound(w, r)
		return
	}
	body := strings.ReplaceAll(a.body, "SITE", s.URL)
	h := w.Header()
	h["Content-Type"] = nil
	if a.mediaType != "" {
		h.Set("Content-Type", a.mediaType)
	}
	if a.location != "" {
		h.Set("Location", strings.ReplaceAll(a.location, "SITE", s.URL))
		w.WriteHeader(a.status)
		return
	}
	hash := fnv.New64()
	_, _ = hash.Write([]byte(body))
	if h.Set("ETag", fmt.Sprintf(`"%x"`, hash.Sum64())); a.status == 0 && r.Header.Get("If-None-Match") == h.Get("ETag") {
		s.same[r.RequestURI]++
		w.WriteHeader(http.StatusNotModified)
		return
	}
	if a.cut {
		h.Set("Content-Length", fmt.Sprint(len(body)+100))
	}
	w.WriteHeader(max(a.status, 200))
	_, _ = w.Write([]byte(body))
}

func (s *site) set(path string, a answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.answers[path] = a; a == (answer{}) {
		delete(s.answers, path)
	}
}

func page(body string) answer { return answer{mediaType: "text/html", body: body} }

// mirror runs one round.
func mirror(t *testing.T, o Options) *Report {
	t.Helper()
	r, err := tryMirror(t.Context(), o)
	require.NoError(t, err)
	return r
}

// open opens a copy, with the crawl as it should be in tests.
func open(t *testing.T, o Options) *Mirror {
	t.Helper()
	m, err := tryOpen(o)
	require.NoError(t, err)
	return m
}

func tryOpen(o Options) (*Mirror, error) {
	o.Crawl.Politeness.Strategy = "off"
	o.Crawl.Politeness.Retries = -1
	o.Crawl.Fetch.AllowPrivate = true
	o.Crawl.OnError = func(f crawl.Failure) { fmt.Println("ERR", f.URL, f.Err) }
	o.Log = slog.New(slog.DiscardHandler)
	return Open(o)
}

func tryMirror(ctx context.Context, o Options) (*Report, error) {
	m, err := tryOpen(o)
	if err != nil {
		return nil, err
	}
	r, err := m.Run(ctx)
	if e := m.Close(); err == nil {
		err = e
	}
	return r, err
}

// files returns the files of a copy without its state, by their paths below the directory of the host.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() == stateDir {
			return cmpErr(err)
		}
		if d.Type().IsRegular() {
			text := must(os.ReadFile(p))
			rel := must(filepath.Rel(dir, p))
			_, below, _ := strings.Cut(filepath.ToSlash(rel), "/")
			found[below] = string(text)
		}
		return nil
	}))
	delete(found, "") // the start page
	return found
}

func cmpErr(err error) error {
	if err != nil {
		return err
	}
	return fs.SkipDir
}

const pixel = "\x89PNG\r\n\x1a\n\x00"

// troublesome returns a site with everything that goes wrong in copies, and another host that has parts of it.
func troublesome(t *testing.T) (s, other *site) {
	long := strings.Repeat("x", 300)
	other = newSite(t, map[string]answer{"/pic.png": {mediaType: "image/png", body: pixel}, "/page.html": page("other"), "/deep.css": {mediaType: "text/css", body: "a{b:url(pic.png)}"}})
	s = newSite(t, map[string]answer{
		"/d/": page(`<title>start</title><link rel="icon" href="data:,"><a href="/d/a">1</a><a href="/d/a/">2</a><a href="/d/a/b">3</a><a href="/d/a/index.html">4</a><a href="/d/a/index.htm">5</a>
			<a href="/d/q?a=1&amp;b=2#f">6</a><a href="/d/q?b=2&amp;a=1">7</a><a href="/d/q?">8</a><a href="/d/q;x=1">9</a><a href="/d/Case">10</a><a href="/d/case">11</a>
			<a href="/d/CON">12</a><a href="/d/aux.html">13</a><a href="/d/a:b*c">14</a><a href="/d/` + long + `">15</a><a href="/d/100%25%23%3F">16</a>
			<a href="/d/go#own">17</a><a href="/d/chain">18</a><a href="/d/loop">19</a><a href="/d/self">20</a><a href="/d/out">21</a>
			<a href="/up.html?x=1#y">22</a><a href="/d/secret">23</a><a href="/d/404">24</a><a href="/d/500">25</a>
			<img src="/d/lied"><a href="/d/octet.html">26</a><a href="/d/none">27</a><a href="/d/x.php">28</a><img src="/d/png.html">
			<img src="/pics/above.png"><link rel=stylesheet href="OTHER/deep.css" integrity="sha256-x" crossorigin><a href="OTHER/page.html">29</a>
			<iframe src="OTHER/page.html"></iframe><link rel=manifest href="/app"><meta name="msapplication-config" content="/bc.xml">
			<script type=module src="/m.js"></script><a rel=nofollow href="/d/nofollow">30</a><a href="http://user:secret@127.0.0.1/">31</a><img data-src="/d/lazy.png"><img data-src="/d/no-such-guess">`),
		"/d/a": page("a"), "/d/a/": page("a slash"), "/d/a/b": page("b"), "/d/a/index.html": page("a index"), "/d/a/index.htm": page("a htm"),
		"/d/q?a=1&b=2": page(`<a href="?b=2&amp;a=1">`), "/d/q?b=2&a=1": page("q ba"), "/d/q?": page("q empty"), "/d/q;x=1": page("q;"),
		"/d/Case": page("upper"), "/d/case": page("lower"), "/d/CON": page("con"), "/d/aux.html": page("aux"), "/d/a:b*c": page("colon"), "/d/" + long: page("long"),
		"/d/100%25%23%3F": page(`<a href="./">up</a>`),
		"/d/go":           {status: 302, location: "/d/a#there"}, "/d/chain": {status: 301, location: "SITE/d/chain2"}, "/d/chain2": {status: 301, location: "/d/a"},
		"/d/loop": {status: 302, location: "/d/loop2"}, "/d/loop2": {status: 302, location: "/d/loop"}, "/d/self": {status: 302, location: "/d/self"},
		"/d/out": {status: 302, location: "/up.html"}, "/up.html": page("out of scope"), "/robots.txt": {body: "User-agent: *\nDisallow: /d/secret"}, "/d/secret": page("secret"),
		"/d/500": {status: 500, mediaType: "text/html", body: "oops"}, "/d/lied": {mediaType: "text/html", body: pixel}, "/d/octet.html": {mediaType: "application/octet-stream", body: "<!DOCTYPE html><a href=a>"},
		"/d/none": {body: "<!DOCTYPE html>none"}, "/d/x.php": page("php"), "/d/png.html": {mediaType: "image/png", body: pixel}, "/pics/above.png": {mediaType: "image/png", body: pixel},
		"/app": {mediaType: "application/json", body: `{"icons":[{"src":"/i.png"}]}`}, "/i.png": {mediaType: "image/png", body: pixel},
		"/bc.xml": {mediaType: "text/xml", body: `<browserconfig><square70x70logo src="/i.png"/></browserconfig>`}, "/m.js": {mediaType: "text/javascript", body: `import "./n.js?1"`}, "/n.js?1": {mediaType: "text/javascript", body: "1"},
		"/d/nofollow": page("nofollow"), "/d/lazy.png": {mediaType: "image/png", body: pixel},
	})
	start := s.answers["/d/"]
	start.body = strings.ReplaceAll(start.body, "OTHER", other.URL)
	s.set("/d/", start)
	return s, other
}

func TestMirror(t *testing.T) {
	s, other := troublesome(t)
	dir := t.TempDir()
	report := mirror(t, Options{Dir: dir, Seeds: []string{s.URL + "/d/"}, Crawl: crawl.Options{Scope: crawl.ScopeOptions{Mode: "prefix"}}})
	assert.True(t, report.Complete)
	got := files(t, dir)
	text := got["d/index.html"]
	link := func(n string) string {
		before, _, ok := strings.Cut(text, `">`+n+`</a>`)
		require.True(t, ok, n)
		return before[strings.LastIndexByte(before, '"')+1:]
	}
	// Every link leads to a file, which is the right one.
	for n, want := range map[string]string{
		"1": "a", "2": "a slash", "3": "b", "4": "a index", "5": "a htm", "7": "q ba", "8": "q empty", "9": "q;", "10": "upper", "11": "lower", "12": "con", "13": "aux",
		"14": "colon", "15": "long", "17": "a", "18": "a", "27": "<!DOCTYPE html>none", "28": "php",
	} {
		ref, _, _ := strings.Cut(link(n), "#")
		assert.Equal(t, want, got["d/"+filename.Unescape(ref)], "%s: %s", n, ref)
	}
	assert.Equal(t, "q@a=1%26b=2.html#f", link("6"))
	assert.Equal(t, "100%2525%23%253F.html", link("16"), "names are escaped once more")
	assert.Equal(t, `<a href="index.html">up</a>`, got["d/100%25#%3F.html"])
	assert.Equal(t, `<a href="q@b=2%26a=1.html">`, got["d/q@a=1&b=2.html"])
	assert.Equal(t, "a.html#own", link("17"), "the fragment of the link is stronger than that of the redirect")
	for n, want := range map[string]string{
		"19": s.URL + "/d/loop", "20": s.URL + "/d/self", "21": s.URL + "/d/out", "22": s.URL + "/up.html?x=1#y", "23": s.URL + "/d/secret", "24": s.URL + "/d/404",
		"25": s.URL + "/d/500", "29": "../../" + hostName(strings.TrimPrefix(other.URL, "http://")) + "/page.html", "30": s.URL + "/d/nofollow", "31": "http://user:secret@127.0.0.1/",
	} {
		assert.Equal(t, want, link(n), n)
	}
	// Media types that are wrong.
	assert.Contains(t, text, `<img src="lied.png">`)
	assert.Contains(t, text, `<img src="png.html.png">`)
	assert.Contains(t, got["d/octet.html"], `href=a.html>`)
	// Parts in any place.
	assert.Equal(t, pixel, got["pics/above.png"])
	assert.Contains(t, text, `/deep.css"  >`, "no integrity, no crossorigin")
	assert.Equal(t, "a{b:url(pic.png)}", got["deep.css"])
	assert.Equal(t, pixel, got["pic.png"])
	assert.Equal(t, `{"icons":[{"src":"i.png"}]}`, got["app.webmanifest"]+got["app.json"])
	assert.Equal(t, `<browserconfig><square70x70logo src="i.png"/></browserconfig>`, got["bc.xml"])
	assert.Equal(t, `import "./n@1.js"`, got["m.js"])
	assert.Contains(t, text, `<img data-src="lazy.png"><img data-src="/d/no-such-guess">`)
	// A missing file is reported with the page that links to it, unless it was only a guess.
	var failed []string
	for _, f := range report.Failures {
		failed = append(failed, strings.TrimPrefix(f.URL, s.URL))
		assert.NotEmpty(t, f.From)
	}
	assert.Subset(t, failed, []string{"/d/404", "/d/500", "/d/secret"})
	assert.NotContains(t, failed, "/d/no-such-guess")
	for name, body := range got {
		checkName(t, "h/"+name)
		assert.NotContains(t, body, "oops", "no error is a page")
	}
	// The copy works in any place: nothing in it names its directory.
	for _, body := range got {
		assert.NotContains(t, body, dir)
	}
	again := mirror(t, Options{Dir: dir, Crawl: crawl.Options{Scope: crawl.ScopeOptions{Mode: "prefix"}}})
	assert.Zero(t, again.New+again.Changed+again.Gone+again.Unlinked, "%+v", again)
	assert.Equal(t, got, files(t, dir), "the same once more")
}

func TestSpan(t *testing.T) {
	other := newSite(t, map[string]answer{"/x.css": {mediaType: "text/css", body: "a{}"}})
	s := newSite(t, map[string]answer{"/d/": page(`<link rel=stylesheet href="` + other.URL + `/x.css"><img src="/i.png">`), "/i.png": {mediaType: "image/png", body: pixel}})
	dir := t.TempDir()
	mirror(t, Options{Dir: dir, Seeds: []string{s.URL + "/d/"}, SameHost: true, Crawl: crawl.Options{Scope: crawl.ScopeOptions{Mode: "prefix", Include: []string{"/d/"}}}})
	got := files(t, dir)
	assert.Contains(t, got["d/index.html"], `href="`+other.URL+`/x.css"`)
	assert.Contains(t, got["d/index.html"], `src="../i.png"`, "what a page is made of is above it, and not included")
	assert.Empty(t, other.asked)
}

// A round requests what may have changed, and a failure does not damage the copy.
func TestAgain(t *testing.T) {
	all := `<a href="same">s</a><a href="changes">c</a><a href="breaks">b</a><a href="fails">f</a><a href="goes">g</a><a href="moves">m</a><a href="type">t</a><a href="late">l</a>`
	s := newSite(t, map[string]answer{
		"/": page(all), "/same": page("same"), "/changes": page("one"), "/breaks": page("whole"), "/fails": page(`<a href="behind">`), "/behind": page("behind"), "/goes": page("gone soon"),
		"/moves": page("moves"), "/type": page("html"),
	})
	dir := t.TempDir()
	o := Options{Dir: dir, Seeds: []string{s.URL + "/"}}
	first := mirror(t, o)
	assert.Equal(t, 9, first.New)
	before := files(t, dir)
	assert.Contains(t, before["index.html"], `<a href="`+s.URL+`/late">`)

	s.set("/changes", page("two"))
	s.set("/breaks", answer{mediaType: "text/html", body: "half", cut: true})
	// Not a 503, after which the crawl requests "/" to tell a failing host from a failing page.
	s.set("/fails", answer{status: 400, body: "bad"})
	s.set("/goes", answer{})
	s.set("/moves", answer{status: 301, location: "/moved"})
	s.set("/moved", page("moved"))
	s.set("/type", answer{mediaType: "image/png", body: pixel})
	s.set("/late", page(`<a href="/">up</a>`))
	clear(s.same)
	clear(s.asked)
	second := mirror(t, o)
	assert.Equal(t, map[string]int{"/": 1, "/same": 1, "/behind": 1}, s.same, "of %v", s.asked)
	got := files(t, dir)
	assert.Equal(t, map[string]int{"new": 2, "changed": 2, "gone": 1}, map[string]int{"new": second.New, "changed": second.Changed, "gone": second.Gone})
	assert.Equal(t, "two", got["changes.html"])
	assert.Equal(t, "whole", got["breaks.html"])
	assert.Equal(t, `<a href="behind.html">`, got["fails.html"])
	assert.Equal(t, "gone soon", got["goes.html"])
	assert.Equal(t, pixel, got["type.png"])
	assert.NotContains(t, got, "type.html")
	assert.Equal(t, `<a href="index.html">up</a>`, got["late.html"])
	assert.Equal(t, `<a href="same.html">s</a><a href="changes.html">c</a><a href="breaks.html">b</a><a href="fails.html">f</a><a href="goes.html">g</a><a href="moved.html">m</a><a href="type.png">t</a><a href="late.html">l</a>`, got["index.html"])

	s.set("/", page(strings.Replace(all, `<a href="same">s</a>`, "", 1)))
	s.set("/fails", answer{status: 503, body: "down"})
	o.Delete = true
	third := mirror(t, o)
	got = files(t, dir)
	assert.Equal(t, 1, third.Unlinked)
	for _, name := range []string{"goes.html", "same.html", "moves.html"} {
		assert.NotContains(t, got, name)
	}
	assert.Contains(t, got["index.html"], `<a href="`+s.URL+`/goes">`)
	assert.Contains(t, got, "fails.html", "what fails is not gone")
	assert.Contains(t, got, "behind.html", "nor is what it leads to")

	s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
	_, _ = tryMirror(t.Context(), o)
	assert.Equal(t, got, files(t, dir), "a site that is down deletes nothing")
}

func TestRefused(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "mine"), nil, 0o600))
	_, err := tryMirror(t.Context(), Options{Dir: dir, Seeds: []string{"http://127.0.0.1:1/"}})
	require.ErrorContains(t, err, "is not empty and is no mirror")
	_, err = tryMirror(t.Context(), Options{Dir: filepath.Join(t.TempDir(), "new")})
	require.ErrorContains(t, err, "name the URL")

	s := newSite(t, map[string]answer{"/": page("x"), "/b/": page("y")})
	copied := t.TempDir()
	mirror(t, Options{Dir: copied, Seeds: []string{s.URL + "/"}})
	_, err = tryMirror(t.Context(), Options{Dir: copied, Seeds: []string{s.URL + "/b/"}, Delete: true})
	require.ErrorContains(t, err, "--delete would remove")
	for range 2 { // a URL that was never reached is not kept: the copy goes on from its own, and there is nothing to finish
		_, err = tryMirror(t.Context(), Options{Dir: copied, Seeds: []string{"http://127.0.0.1:1/"}})
		require.ErrorIs(t, err, crawl.ErrUnreachable)
	}
	mirror(t, Options{Dir: copied, Seeds: []string{s.URL + "/", "http://127.0.0.1:1/"}})
	mirror(t, Options{Dir: copied, Seeds: []string{s.URL + "/"}, Delete: true})
	mirror(t, Options{Dir: copied, Delete: true})
	held, err := Open(Options{Dir: copied, Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	_, err = tryMirror(t.Context(), Options{Dir: copied})
	require.ErrorContains(t, err, "another process")
	require.NoError(t, held.Close())
}

// What is damaged on the disk is fetched again. A page that is empty after a power failure is written again from what was
// received.
func TestVerify(t *testing.T) {
	for _, emptied := range []bool{false, true} {
		s := newSite(t, map[string]answer{"/": page(`<img src=i><a href=p>`), "/i": {mediaType: "image/png", body: pixel}, "/p": page("p")})
		dir := t.TempDir()
		o := Options{Dir: dir, Seeds: []string{s.URL + "/"}}
		mirror(t, o)
		want := files(t, dir)
		for name := range want {
			found := must(filepath.Glob(filepath.Join(dir, "*", name)))
			switch {
			case emptied:
				require.NoError(t, os.Truncate(found[0], 0))
			case name == "p.html":
				require.NoError(t, os.Remove(found[0]))
			default:
				require.NoError(t, os.Truncate(found[0], 3))
			}
		}
		if !emptied {
			packs := must(filepath.Glob(filepath.Join(dir, stateDir, "*.pack")))
			require.Len(t, packs, 1)
			require.NoError(t, os.Truncate(packs[0], 1))
		}
		mirror(t, o)
		assert.Equal(t, want, files(t, dir))
		if emptied {
			assert.Equal(t, 1, s.same["/p"], "it was whole in the pack")
		}
	}
}

// Starts that bring nothing new add nothing to the journal of a round that is not settled.
func TestJournalDoesNotGrow(t *testing.T) {
	s := newSite(t, map[string]answer{"/": page(`<a href=p>`), "/p": page("p")})
	dir := t.TempDir()
	o := Options{Dir: dir, Seeds: []string{s.URL + "/"}}
	journal := filepath.Join(dir, stateDir, journalFile)
	var sizes []int64
	for n := range 4 {
		m := open(t, o)
		if n == 0 { // all is fetched, and then the process is killed
			require.NoError(t, m.crawler.Run(t.Context(), o.Seeds...))
		}
		require.NoError(t, m.Close())
		info := must(os.Stat(journal))
		sizes = append(sizes, info.Size())
	}
	assert.Equal(t, []int64{sizes[0], sizes[0], sizes[0], sizes[0]}, sizes)
	mirror(t, o)
	assert.Len(t, files(t, dir), 2)
}

// A run that was killed after it made the state, and before the crawl began, is begun anew by the same command.
func TestKilledBeforeItBegan(t *testing.T) {
	s := newSite(t, map[string]answer{"/": page("x")})
	o := Options{Dir: t.TempDir(), Seeds: []string{s.URL + "/"}}
	killed := filepath.Join(t.TempDir(), "killed")
	m := open(t, o)
	require.NoError(t, os.CopyFS(killed, os.DirFS(o.Dir)))
	require.NoError(t, m.Close())
	require.FileExists(t, filepath.Join(killed, stateDir, "state", "state.db"))
	o.Dir = killed
	require.True(t, mirror(t, o).Complete)
	require.Equal(t, map[string]string{"index.html": "x"}, files(t, killed))
}

// A pack that cannot be written leaves the documents where they were, and is removed.
func TestCompactFails(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("there is no /dev/full")
	}
	s := newSite(t, map[string]answer{"/": page(`<a href=p>`), "/p": page("p")})
	o := Options{Dir: t.TempDir(), Seeds: []string{s.URL + "/"}}
	mirror(t, o)
	m := open(t, o)
	m.pack.end.Store(2 << 20) // as if most of it were not in use
	want := m.index.all()
	next := filepath.Join(o.Dir, stateDir, "pages-1.pack")
	require.NoError(t, os.Symlink("/dev/full", next))
	require.Error(t, m.compact())
	_, err := os.Lstat(next)
	require.ErrorIs(t, err, fs.ErrNotExist)
	for i, e := range m.index.all() {
		require.Same(t, want[i], e, "nothing was read after the error")
	}
	require.NoError(t, m.Close())
}

func TestServe(t *testing.T) {
	s := newSite(t, map[string]answer{"/": page(`<script type=module src=m.js></script>`), "/m.js": {mediaType: "text/javascript", body: "1"}})
	dir := t.TempDir()
	mirror(t, Options{Dir: dir, Seeds: []string{s.URL + "/"}})
	require.ErrorContains(t, Serve(t.Context(), dir, "0.0.0.0:0", nil), "an address of this machine")
	ctx, cancel := context.WithCancel(t.Context())
	at, ended := make(chan string, 1), make(chan error, 1)
	go func() { ended <- Serve(ctx, dir, "127.0.0.1:0", func(url string) { at <- url }) }()
	home := <-at
	get := func(path, host string) (int, string) {
		r := must(http.NewRequest(http.MethodGet, home+path, nil))
		if host != "" {
			r.Host = host
		}
		resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(r)
		require.NoError(t, err)
		defer func() { _ = resp.Body.Close() }()
		assert.NotEmpty(t, resp.Header.Get("Content-Type"))
		return resp.StatusCode, resp.Header.Get("Content-Type")
	}
	host := hostName(strings.TrimPrefix(s.URL, "http://"))
	for path, want := range map[string]int{"": 200, host + "/": 200, host + "/m.js": 200, host: 404, ".crawl/map.jsonl": 404, host + "/../.crawl/map.jsonl": 404, "x": 404} {
		status, _ := get(path, "")
		assert.Equal(t, want, status, path)
	}
	_, mediaType := get(host+"/m.js", "")
	assert.Equal(t, "text/javascript", mediaType)
	status, _ := get("", "evil.example")
	assert.Equal(t, http.StatusMisdirectedRequest, status)
	cancel()
	require.NoError(t, <-ended)
}

// must returns v, and panics for an error.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
