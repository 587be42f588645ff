package trap

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/web/canonical"
	"github.com/treadlight/crawl/internal/web/neardup"
)

func parse(t testing.TB, s string) canonical.URL {
	t.Helper()
	if strings.HasPrefix(s, "/") {
		s = "http://a.test" + s
	}
	u, err := canonical.Parse(s)
	require.NoError(t, err)
	return u
}

// What a URL tells by itself.
func TestLone(t *testing.T) {
	j := New(Config{})
	for path, want := range map[string]Decision{
		"/":                                    Follow,
		"/a/b/a/b/a/b":                         Follow, // three times may be
		"/a/b/a/b/a/b/a/b":                     PathRepetition,
		"/x/a/b/a/b/a/b/a/b/y":                 PathRepetition,
		"/aa/aa/aa":                            Follow,
		"/aa/aa/aa/aa":                         PathRepetition,
		"/f/f/f/f/f/0":                         Follow, // the digits of a hash
		"/0/0/0/0/0":                           Follow, // coordinates
		strings.Repeat("/0", 10):               PathRepetition,
		"/a/b/c/a/d/e/a/f/g/a/h":               Follow,
		strings.Repeat("/a/x", 2) + "/a/b":     Follow,
		"/s/a/s/b/s/c/s/d/s/e/s/f/s/g/s/h/s/i": Follow, // nine times
		"/s/a/s/b/s/c/s/d/s/e/s/f/s/g/s/h/s/i/s/j/": PathRepetition,
		"/a//b//c//d//e//f":                         Follow, // nothing is no segment
		"/a/b?x=/a/b/a/b/a/b/a/b":                   Follow, // a query is no path
		deep(32):                                    Follow,
		deep(33):                                    PathDepth,
		"/" + strings.Repeat("x", 8000-14):          Follow,
		"/" + strings.Repeat("x", 8000-13):          URLLength,
		"/?" + strings.Repeat("x", 8000):            URLLength,
		"/doc/libs/1_89_0/doc/html/boost_asio/reference/basic_stream_socket/overload1.html": Follow,
	} {
		require.Equal(t, want.String(), j.CheckLink(parse(t, path), thisYear).String(), path)
	}
}

func deep(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "/s%d", i)
	}
	return b.String()
}

func TestDate(t *testing.T) {
	for want, urls := range map[int][]string{
		2031: {"/2031/04", "/2031/4/", "/x/2031-04-01.html", "/20310401/", "/cal?d=2031-04", "/cal?a=b&year=2031", "/cal?y=2031&m=4", "/cal?d=20310401"},
		1999: {"/a/1999/12/31/2040-01"},
		0: {
			"/1066", // may be the name of a page
			"/2031", "/2031/13", "/2031/005", "/2031-x", "/20311401/", "/item/123456789", "/12031/04", "/cal?id=2031", "/cal?month=4", "/0031/04", "/",
		},
	} {
		for _, u := range urls {
			year, ok := date(u)
			require.Equal(t, want, year, u)
			require.Equal(t, want != 0, ok, u)
		}
	}
}

// URLs that have a pattern in common, and such as have not.
func TestShapes(t *testing.T) {
	j := New(Config{})
	for _, tc := range []struct {
		a, b string
		same [levels]bool
	}{
		{"/a/1.html", "/a/2.html", [levels]bool{true, true, true, true}},
		{"/a/x.html", "/a/y.html", [levels]bool{true, true, true, true}},
		{"/a/x.html", "/a/y.pdf", [levels]bool{false, true, true, true}},
		{"/a/x.html", "/a/", [levels]bool{false, true, true, true}},
		{"/a/b1/x", "/a/b2/x", [levels]bool{true, true, true, true}},
		{"/a/b/x", "/a/c/x", [levels]bool{false, true, true, true}},
		{"/a/x", "/b/x", [levels]bool{false, true, false, true}},
		{"/a/x", "http://b.test/a/x", [levels]bool{false, true, false, false}},
		{"/a?p=1&q=2", "/a?q=3&p=4", [levels]bool{true, true, true, true}},
		{"/a?p=1", "/a?q=1", [levels]bool{false, true, true, true}},
		{"/a?p=1", "/a?p=1&p=2", [levels]bool{true, true, true, true}},
		{"/a?p=1", "/a", [levels]bool{false, false, true, true}},
		{"/a?p=1", "/b/a?p=1", [levels]bool{false, false, false, true}},
	} {
		a, b := j.of(parse(t, tc.a)), j.of(parse(t, tc.b))
		for l := range levels {
			require.Equal(t, tc.same[l], a.keys[l] == b.keys[l], "%s %s: level %d", tc.a, tc.b, l)
		}
		seen := map[uint64]bool{}
		for _, key := range a.keys {
			require.False(t, key != 0 && seen[key], "levels are apart: %s", tc.a)
			seen[key] = true
		}
	}
	require.NotEqual(t, j.of(parse(t, "/")).keys, New(Config{Key: 1}).of(parse(t, "/")).keys)
	u := parse(t, "/a/b-1/c/2026/04/x.html?p=1&q=2026-01-02&r=4")
	require.Zero(t, testing.AllocsPerRun(100, func() { j.CheckLink(u, thisYear) }))
}

// stale has a judge see pages of a pattern that say one thing.
func stale(t testing.TB, j *Detector, pattern string, from, to int, text string) {
	t.Helper()
	for i := from; i < to; i++ {
		see(t, j, fmt.Sprintf(pattern, i), "Title", text)
	}
}

func see(t testing.TB, j *Detector, path, title, text string) {
	t.Helper()
	var r neardup.Reader
	u := parse(t, path)
	j.RecordAccepted(canonical.URL{}, u, thisYear)
	if look := j.RecordVisit(u, title); look.Read {
		j.RecordText(&look, r.Read([]byte(text), nil), SaysNotFound(title))
	}
}

// A pattern that was left lets one URL pass after 64, 128 and so on were refused, whether they are new or were
// accepted before; and it is open again when such a page is fresh.
func TestProbes(t *testing.T) {
	j := New(Config{})
	const patterns = "/n/%d"
	stale(t, j, patterns, 0, 16+16+24-2, "all pages of this site say the very same thing")
	require.Equal(t, Follow, j.CheckLink(parse(t, "/n/1000"), thisYear))
	stale(t, j, patterns, 100, 102, "all pages of this site say the very same thing")
	require.Equal(t, PatternBudget, j.CheckLink(parse(t, "/n/1000"), thisYear))
	require.Equal(t, Follow, j.CheckLink(parse(t, "/m/1000"), thisYear))
	require.False(t, j.AllowProbe(parse(t, "/m/1000")), "nobody refused it")

	var passed []int
	for i := range 300 {
		u := parse(t, fmt.Sprintf(patterns, 1000+i))
		require.Equal(t, PatternBudget, j.CheckLink(u, thisYear))
		if i%2 == 0 {
			if j.AllowProbe(u) {
				require.Equal(t, Follow, j.CheckQueued(u), "it has passed")
				passed = append(passed, i+1)
			}
		} else if j.CheckQueued(u) == Follow {
			passed = append(passed, i+1)
			require.Equal(t, Follow, j.CheckQueued(u), "and may be tried again")
		}
	}
	require.Equal(t, []int{64, 128, 256}, passed)
	see(t, j, "/n/1063", "Title", "something new to tell about ships and the sea")
	require.Equal(t, Follow, j.CheckLink(parse(t, "/n/5000"), thisYear))
	require.Zero(t, j.skipped.Load())
	stale(t, j, patterns, 2000, 2000+16+16+24, "all pages of this site say the very same thing")
	require.Equal(t, PatternBudget, j.CheckLink(parse(t, "/n/5000"), thisYear), "and can be left once more")
}

// What was learned is not what a page before the next trial says: a trap that begins late is left too.
func TestTrapThatBeginsLate(t *testing.T) {
	j := New(Config{})
	for i := range 2000 {
		see(t, j, fmt.Sprintf("/n/%d", i), prose(fmt.Sprint(i), 3), prose(fmt.Sprint(i), 30))
	}
	require.Equal(t, Follow, j.CheckLink(parse(t, "/n/x"), thisYear))
	pages := 0
	for ; j.CheckLink(parse(t, "/n/x"), thisYear) == Follow; pages++ {
		see(t, j, fmt.Sprintf("/n/t%d", pages), "Title", "all pages of this site say the very same thing")
		require.Less(t, pages, 1100)
	}
	t.Logf("left after %d pages", pages)
}

// One fresh page in ten is enough for a pattern to go on.
func TestMixedPattern(t *testing.T) {
	j := New(Config{})
	for i := range 5000 {
		text := "all pages of this site say the very same thing"
		if i%10 == 0 {
			text = prose(fmt.Sprint(i), 10)
		}
		see(t, j, fmt.Sprintf("/n/%d", i), "Title", text)
		require.Equal(t, Follow, j.CheckLink(parse(t, "/n/x"), thisYear), i)
	}
}

func TestNothing(t *testing.T) {
	for text, want := range map[string]bool{
		"404 Not Found": true, "Seite nicht gefunden": true, "Page introuvable": true, "Página no encontrada": true,
		"Страница не найдена": true, "页面不存在 - 网站": true, "ページが見つかりません": true, "Nothing found for “x”": true,
		"": false, "Home": false, "What to do when you are lost": false,
	} {
		require.Equal(t, want, SaysNotFound(text), text)
	}
	require.False(t, SaysNotFound(strings.Repeat("x", 300)+"not found"), "further on than anyone reads")
}

func TestTitleHash(t *testing.T) {
	same := func(a, b string) bool { return titleHash(a) == titleHash(b) }
	require.True(t, same("May 2031", "May 2032"))
	require.False(t, same("May 2031", "June 2031"))
	require.True(t, same("Page 7", "Page 123"))
	require.False(t, same("fn vcnt_p8", "fn vcnt_p16"), "a name")
	require.Zero(t, titleHash(""))
	require.Zero(t, titleHash("2031"))
}

// Goroutines that parse and the one that follows links ask at the same time.
func TestJudgeFromManyGoroutines(t *testing.T) {
	j := New(Config{})
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			var r neardup.Reader
			for i := range 400 {
				u, err := canonical.Parse(fmt.Sprintf("http://h%d.test/n/%d?sid=%d%da0b1c2d3e4f5", i%3, i, g, i))
				if err != nil {
					t.Error(err)
					return
				}
				if look := j.RecordVisit(u, "Title"); look.Read {
					j.RecordText(&look, r.Read([]byte("all pages of this site say the very same thing"), nil), false)
				}
				if j.CheckLink(u, thisYear) == Follow {
					j.RecordAccepted(u, u, thisYear)
				} else {
					j.AllowProbe(u)
				}
				j.CheckQueued(u)
			}
		})
	}
	wg.Wait()
	require.Positive(t, j.skipped.Load(), "they have left what had nothing new")
}

// The same calls in the same order say the same, whatever the key.
func TestJudgeIsDeterministic(t *testing.T) {
	site := func(path string) *paper {
		r := draw(path)
		p := &paper{title: "Page", text: frame + prose(fmt.Sprint(r.IntN(30)), 20)}
		for range 4 {
			p.links = append(p.links, fmt.Sprintf("/%s/%d?x=%d", prose(fmt.Sprint(r.IntN(3)), 1)[:4], r.IntN(1000), r.IntN(5)))
		}
		return p
	}
	first := walk(t, Config{Key: 1}, 3000, site, "/")
	require.Equal(t, first, walk(t, Config{Key: 1}, 3000, site, "/"))
	require.Equal(t, first.refused, walk(t, Config{Key: 2}, 3000, site, "/").refused)
}

func TestReasonsHaveWords(t *testing.T) {
	seen := map[string]bool{}
	for r := PathRepetition; r < NumDecisions; r++ {
		require.NotEmpty(t, r.String())
		require.NotEmpty(t, r.Why())
		require.NotEmpty(t, r.Fix())
		require.False(t, seen[r.String()])
		seen[r.String()] = true
	}
	require.Empty(t, Follow.String())
}

// Whatever a URL looks like, it is judged, and alike each time.
func FuzzLink(f *testing.F) {
	for _, s := range []string{"/", "/a/b/a/b/a/b/a/b?x", "/2031/04/01", "/;jsessionid=1;a=", "/?sid=abcdef&&=", "/(S(x))/", "//", "/%zz?y=1&"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, path string) {
		u, err := canonical.Parse("http://a.test/" + path)
		if err != nil {
			return
		}
		j := New(Config{})
		if a, b := j.CheckLink(u, thisYear), j.CheckLink(u, thisYear); a != b {
			t.Errorf("%v, and then %v", a, b)
		}
		j.RecordAccepted(u, u, thisYear)
		look := j.RecordVisit(u, path)
		j.RecordText(&look, new(neardup.Reader).Read([]byte(path), nil), SaysNotFound(path))
		if name, from, to := randomIn(u.Path()); from >= 0 && (to <= from || to > len(u.Path()) || len(name) > len(u.Path())) {
			t.Errorf("%q from %d to %d", name, from, to)
		}
	})
}

// BenchmarkLink is what a link costs: usually, while a trial is on, and when a pattern was left.
func BenchmarkLink(b *testing.B) {
	u := parse(b, "https://www.example.com/docs/library/stdtypes/methods.html?lang=en")
	usual, left := New(Config{}), New(Config{})
	stale(b, left, "/n/%d", 0, 60, "all pages of this site say the very same thing")
	for name, j := range map[string]*Detector{"usual": usual, "left": left} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if j.CheckLink(u, thisYear) == Follow {
					j.RecordAccepted(u, u, thisYear)
				}
			}
		})
	}
}

// counter is a site whose every page says the same and leads to the next one.
func counter(path string) *paper {
	n := 0
	_, _ = fmt.Sscanf(path, "/%d", &n)
	return &paper{"Page", frame + fmt.Sprint("Page ", n), []string{fmt.Sprintf("/%d", n+1)}}
}

// By default a trap is left as soon after a thousand pages as else after the first.
func TestAfter(t *testing.T) {
	atOnce := len(walk(t, Config{}, 5000, counter, "/").fetched)
	for _, after := range []int{1000, 200} {
		v := walk(t, Config{After: after}, 5000, counter, "/")
		require.Equal(t, [NumDecisions]int{PatternBudget: 1}, v.refused)
		require.InDelta(t, after+atOnce, len(v.fetched), 2)
	}
}

// The pages of a host with a thousand of them are neither read nor left, whatever they say and whatever their dates,
// ids and titles; it has URLs beyond.
func TestSmallSitesAreWhole(t *testing.T) {
	for name, site := range map[string]func(path string) *paper{
		"one page a thousand times": func(path string) *paper {
			return &paper{"Page not found", "Not found", counter(path).links}
		},
		"links alone": func(path string) *paper {
			return &paper{"", "", counter(path).links}
		},
		"dates far away": func(path string) *paper {
			n := 0
			_, _ = fmt.Sscanf(path, "/%d", &n)
			return &paper{"Day", "Nothing", []string{fmt.Sprintf("/%d/12/31", n+3000)}}
		},
		"session ids": func(path string) *paper {
			return &paper{"Page", frame, []string{fmt.Sprintf("/?sid=%x", draw(path).Uint64()|1<<63)}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			v := walk(t, Config{After: 1000}, 1000, site, "/1")
			require.Len(t, v.fetched, 1000)
			require.Equal(t, [NumDecisions]int{}, v.refused)
			require.Zero(t, v.read)
		})
	}
}

// Hosts are judged by their own pages: those of others do not make them large.
func TestHostsAreCountedApart(t *testing.T) {
	j := New(Config{After: 10})
	for i := range 40 {
		u := parse(t, fmt.Sprintf("http://a%d.test/%d", i%4, i))
		require.False(t, j.RecordVisit(u, "").Read)
	}
	require.Zero(t, j.large.Load())
	for i := range 100 {
		see(t, j, fmt.Sprintf("http://a1.test/n/%d", i), "Page", "all pages of this site say the very same thing")
	}
	require.Equal(t, int32(1), j.large.Load())
	require.Equal(t, PatternBudget, j.CheckLink(parse(t, "http://a1.test/n/x"), thisYear))
	require.Equal(t, Follow, j.CheckLink(parse(t, "http://a2.test/n/x"), thisYear))
}

// Of many hosts those that had no page for the longest time are forgotten.
func TestManyHosts(t *testing.T) {
	j := New(Config{After: 16})
	large := parse(t, "http://large.test/")
	for range 17 {
		j.countPage(large)
	}
	for i := range 3 * maxHosts {
		j.countPage(parse(t, fmt.Sprintf("http://h%d.test/", i)))
		if i%1000 == 0 {
			require.True(t, j.countPage(large))
		}
	}
	require.Equal(t, maxHosts, j.hosts.Len())
	require.True(t, j.countPage(large))
	require.Equal(t, int32(1), j.large.Load())
	j = New(Config{}) // all of them are large
	for i := range 2 * maxHosts {
		j.countPage(parse(t, fmt.Sprintf("http://h%d.test/", i)))
	}
	require.Equal(t, maxHosts, j.hosts.Len())
	require.Equal(t, int(j.large.Load()), j.hosts.Len())
}

// Pages that say the same and lead nowhere new have an end, and are visited whole.
func TestWhatDoesNotGrowIsNoTrap(t *testing.T) {
	const pages = 3000
	v := walk(t, Config{}, 1<<30, func(path string) *paper {
		if path != "/" {
			return &paper{"Item", frame + "Item " + path[1:], []string{"/"}}
		}
		p := &paper{title: "Items"}
		for i := range pages {
			p.links = append(p.links, fmt.Sprint("/", i))
		}
		return p
	}, "/")
	require.Len(t, v.fetched, pages+1)
	require.Less(t, v.read, 400, "only the first trial of each pattern reads them")
}

// Index pages that hold nothing but links are news by where they lead.
func TestIndexesOfLinks(t *testing.T) {
	const items = 20_000
	v := walk(t, Config{}, 1<<30, func(path string) *paper {
		if strings.HasPrefix(path, "/item/") {
			return article(path, 20)
		}
		n := 0
		_, _ = fmt.Sscanf(path, "/index/%d", &n)
		p := &paper{}
		for i := n * 20; i < min((n+1)*20, items); i++ {
			p.links = append(p.links, fmt.Sprint("/item/", i))
		}
		if (n+1)*20 < items {
			p.links = append(p.links, fmt.Sprint("/index/", n+1))
		}
		return p
	}, "/index/0")
	require.Equal(t, items+items/20, len(v.fetched))
	require.Equal(t, [NumDecisions]int{}, v.refused)
}
