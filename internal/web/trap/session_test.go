package trap

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Of a site whose links carry session ids each page is visited a few times, and all are.
func TestSessions(t *testing.T) {
	for name, link := range map[string]func(page int, id string) string{
		"a parameter":        func(page int, id string) string { return fmt.Sprintf("/page/%d?lang=en&sid=%s", page, id) },
		"a part of the path": func(page int, id string) string { return fmt.Sprintf("/%s/page/%d", id, page) },
		"behind a semicolon": func(page int, id string) string { return fmt.Sprintf("/page/%d;jsessionid=%s?a=b", page, id) },
		"as ASP.NET has it":  func(page int, id string) string { return fmt.Sprintf("/(S(%s))/page/%d", id, page) },
	} {
		t.Run(name, func(t *testing.T) {
			const pages = 60
			visits := map[int]int{}
			v := walk(t, Config{}, 20_000, func(path string) *paper {
				page := 0
				if i := strings.Index(path, "page/"); i >= 0 {
					_, _ = fmt.Sscanf(path[i:], "page/%d", &page)
				}
				visits[page]++
				r := draw(path)
				p := article(fmt.Sprint("page", page), 60)
				id := fmt.Sprintf("%x", r.Uint64()|1<<63)
				for i := 1; i <= 8; i++ { // of each page, others
					p.links = append(p.links, link((page*7+i*i)%pages, id))
				}
				return p
			}, "/")
			t.Logf("%d fetched, refused %v", len(v.fetched), v.refused)
			require.Len(t, visits, pages)
			require.Less(t, len(v.fetched), 8*pages)
			require.Positive(t, v.refused[Sessions])
		})
	}
}

func TestRandomIn(t *testing.T) {
	for path, want := range map[string]string{
		"/page?sid=abc123":                        "sid abc123",
		"/page?PHPSESSID=abc123&x=1":              "PHPSESSID abc123",
		"/page;jsessionid=0A1B2C3D":               "jsessionid 0A1B2C3D",
		"/page;jsessionid=0A1B2C3D?x=1":           "jsessionid 0A1B2C3D",
		"/x/0a1b2c3d4e5f60718293a4b5c6d7e8f9/y":   " 0a1b2c3d4e5f60718293a4b5c6d7e8f9",
		"/(S(lit3py55t21z5v55vlm25s55))/x.aspx":   " (S(lit3py55t21z5v55vlm25s55))",
		"/watch?v=1&t=0a1b2c3d4e5f6071":           "t 0a1b2c3d4e5f6071",
		"/x/6ba7b810-9dad-11d1-80b4-00c04fd430c8": " 6ba7b810-9dad-11d1-80b4-00c04fd430c8",
		"/page?sid=x":                             "",
		"/2026/04/a-long-name-of-an-article":      "",
		"/article/1234567890123456789":            "",
		"/boost_1_89_0/doc_html":                  "",
		"/?q=some+words+typed+by+a+person":        "",
		"/":                                       "",
		"/;?&;=&":                                 "",
	} {
		name, from, to := randomIn(path)
		got := ""
		if from >= 0 {
			got = name + " " + path[from:to]
		}
		require.Equal(t, want, got, path)
	}
}

// A part that looks random and is none is told by pages that differ, in words or in images; and pages that are too
// short to differ are not read for ever.
func TestRandomButNoSession(t *testing.T) {
	for name, page := range map[string]func(i int) string{
		"words":  func(i int) string { return prose(fmt.Sprint(i), 100) },
		"images": func(i int) string { return frame + fmt.Sprintf(`<img src="/full/IMG_%d.jpg">`, i) },
		"short":  func(int) string { return "Nothing to be seen" },
	} {
		t.Run(name, func(t *testing.T) {
			j := New(Config{})
			for i := range 300 {
				see(t, j, fmt.Sprintf("/watch?id=%x", draw(fmt.Sprint(i)).Uint64()|1<<63), "Video", page(i))
			}
			require.Zero(t, j.learned.Load())
			require.Equal(t, 1, j.sessions.parts.Len())
			for _, p := range j.sessions.parts.Values() {
				require.True(t, p.decided)
				require.Nil(t, p.first)
			}
		})
	}
}

// However many patterns, trials, parts and ids there are, there is room.
func TestBounds(t *testing.T) {
	j := New(Config{})
	for i := range maxPatterns {
		j.RecordVisit(parse(t, fmt.Sprintf("http://h%d.test/x/%s/", i/4, []string{"a", "b", "c", "d"}[i%4])), "")
	}
	require.Equal(t, maxPatterns, j.patterns.Len())
	j = New(Config{})
	for i := range 2 * maxTrials {
		for n := range 20 {
			see(t, j, fmt.Sprintf("http://h%d.test/x/%d", i, n), "Title", "all pages of this site say the very same thing")
		}
	}
	require.Equal(t, maxTrials, j.trials.Len())
	for _, p := range j.trials.Keys() {
		require.NotNil(t, p.trial)
	}
	trying := int32(0)
	for _, p := range j.patterns.Values() {
		if p.trying {
			trying++
		}
	}
	require.Equal(t, trying, j.trying.Load())
	s := New(Config{}).sessions
	for i := range 3 * maxParts {
		s.open(parse(t, fmt.Sprintf("/x?name%d=0a1b2c3d4e5f6071", i)))
	}
	require.Equal(t, maxParts, s.parts.Len())
}

// A pattern that was left stays so when its trial's room is needed, without probes.
func TestLeftWithoutRoom(t *testing.T) {
	j := New(Config{})
	stale(t, j, "http://a.test/n/%d", 0, 16+16+24, "all pages of this site say the very same thing")
	require.Equal(t, int32(1), j.skipped.Load())
	for i := range maxTrials + 1 {
		stale(t, j, fmt.Sprintf("http://h%d.test/x/%%d", i), 0, 20, "all pages of this site say the very same thing")
	}
	for i := range 1000 {
		require.Equal(t, PatternBudget, j.CheckQueued(parse(t, fmt.Sprintf("http://a.test/n/%d", 5000+i))))
	}
	// Patterns that were left are not forgotten while URLs of them are found.
	for i := range maxPatterns {
		j.RecordVisit(parse(t, fmt.Sprintf("http://x%d.test/", i)), "")
		if i%10_000 == 0 {
			j.CheckLink(parse(t, "http://a.test/n/x"), thisYear)
		}
	}
	require.Equal(t, int32(1), j.skipped.Load())
}
