package extract

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestKnown reads pages of several directories with an extractor that remembers and with new ones, which must find
// the same.
func TestKnown(t *testing.T) {
	refs := []string{
		"https://a.example/", "https://a.example/d/", "http://a.example/d/", "https://b.example/d/",
		"", "?", "?q", "#f", "x", "./x", "../x", "/x", "//h.example/x", "http://h.example/x", "https:x", "https:?q", "https:", "http:/x", "x?y=http://z", "mailto:x", "http://[", " x ", "x\ty", "é",
	}
	bases := []string{"https://a.example/", "https://a.example/p", "https://a.example/p?q/r", "https://a.example/d/p", "http://a.example/d/p", "https://b.example/d/p"}
	r := rand.New(rand.NewPCG(1, 2))
	var used Extractor
	for range 2000 {
		page := ""
		for range r.IntN(8) {
			page += fmt.Sprintf("<a href='%s%s'>", refs[r.IntN(len(refs))], []string{"", "", "1", "?2"}[r.IntN(4)])
		}
		if r.IntN(4) == 0 {
			page += "<base href=/d/>"
		}
		if r.IntN(4) == 0 {
			page = "<meta charset=shift_jis>\xff" + page
		}
		base, opts := mustParse(t, bases[r.IntN(len(bases))]), Options{Key: r.Uint64N(2)}
		var got, want Result
		require.NoError(t, used.Page(base, "text/html", "", []byte(page), opts, &got))
		require.NoError(t, new(Extractor).Page(base, "text/html", "", []byte(page), opts, &want))
		require.Equal(t, want, got, "%s at %s", page, base)
		for _, l := range got.Links {
			require.Equal(t, l.URL.Fingerprint(opts.Key), l.Fingerprint)
		}
	}
}

// A link by the whole name of the directory that the page lies in is a link like any other, and so are those of two
// pages to each other's directories.
func TestLinksToDirectories(t *testing.T) {
	var e Extractor
	var r Result
	const one, two = "https://a.example/one/", "https://a.example/two/"
	for _, page := range []string{one, two, one} {
		require.NoError(t, e.Page(mustParse(t, page+"p"), "text/html", "", []byte("<a href="+one+"><a href="+two+">"), Options{}, &r))
		require.Len(t, r.Links, 2)
		require.Equal(t, one, r.Links[0].URL.String(), page)
		require.Equal(t, two, r.Links[1].URL.String(), page)
	}
}

// What is remembered stays within its bounds, whatever pages hold.
func TestKnownIsBounded(t *testing.T) {
	var e Extractor
	var r Result
	base := mustParse(t, docURL)
	for n := range 8 {
		var page strings.Builder
		for i := range 9000 {
			fmt.Fprintf(&page, "<a href=%d-%d>", n, i)
		}
		require.NoError(t, e.Page(base, "text/html", "", []byte(page.String()), Options{}, &r))
		require.Len(t, r.Links, 9000)
	}
	require.Len(t, e.links.resolved.slots, maxResolved)

	long := strings.Repeat("l", maxResolvedURL)
	require.NoError(t, e.Page(base, "text/html", "", []byte("<a href="+long+">"), Options{Key: 1}, &r))
	require.Len(t, r.Links, 1)
	require.Zero(t, e.links.resolved.used, "another key begins anew, and a long URL is not kept")
}

// A link that is known costs no allocation, nor does what a page holds beside. Of many links a few fall to one place,
// and cost one each.
func TestKnownLinksDoNotAllocate(t *testing.T) {
	for links, most := range map[int]float64{1: 0, 100: 50} {
		var e Extractor
		var r Result
		base := mustParse(t, docURL)
		page := []byte("<!doctype html><meta charset=utf-8><p>text")
		for i := range 200 {
			page = fmt.Appendf(page, `<li class="x"><a rel="next" href="../%d/index.html#s%d">text</a>&amp;<!-- c --><script>1</script>`, i%links, i)
		}
		read := func() { require.NoError(t, e.Page(base, "text/html", "", page, Options{}, &r)) }
		read()
		require.Len(t, r.Links, links)
		require.LessOrEqual(t, testing.AllocsPerRun(20, read), most)
	}
}

func TestRefreshTarget(t *testing.T) {
	for content, want := range pairs(t, "refresh.txt") {
		require.Equal(t, want, string(RefreshTarget([]byte(content))), "%q", content)
	}
}

func TestNextImage(t *testing.T) {
	for set, want := range pairs(t, "srcset.txt") {
		var got []string
		for rest := []byte(set); len(rest) > 0; {
			var ref []byte
			if ref, rest = NextImage(rest); len(ref) > 0 {
				got = append(got, string(ref))
			}
		}
		require.Equal(t, want, strings.Join(got, "|"), "%q", set)
	}
}
