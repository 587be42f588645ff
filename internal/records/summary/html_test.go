package summary

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/html"

	"github.com/treadlight/crawl/internal/records/sink"
)

// hostile is what strangers may write wherever they have a hand in it.
const hostile = "javascript:alert(1)//\"'><script>alert(2)</script><img src=x onerror=alert(3)>\u202e\x1b[31m</style>"

// Whatever a record holds is text in the page: no element and no attribute comes of it, no
// link leads anywhere but to HTTP, and nothing is loaded.
func TestHTMLIsHarmless(t *testing.T) {
	var records []sink.Record
	for _, u := range []string{hostile, "http://" + hostile, "http://a.test/" + hostile} {
		for _, r := range site() {
			r.URL, r.Title, r.ContentType, r.Change = u+r.URL, hostile, hostile, hostile
			r.Links, r.Referrer, r.Kind = []string{hostile, u}, hostile, strings.Replace(r.Kind, "robots", hostile, 1)
			if r.RedirectTo != "" {
				r.RedirectTo = u
			}
			if r.Error != nil {
				r.Error = &sink.Error{Class: hostile}
			}
			if r.Sitemap != nil {
				r.Sitemap = &sink.Sitemap{Format: hostile, Problem: hostile, Problems: 1}
			}
			r.DuplicateOf = hostile
			records = append(records, r)
		}
	}
	s := read(t, written(t, sink.JSONL, records...), Config{})
	s.Hosts.Listed[0].Host, s.Hosts.Listed[0].Reason = hostile, hostile
	s.Crawl = &Crawl{Round: 2, Rates: []Rate{{Host: hostile, PerSecond: 1}}}
	s.Left = []string{hostile}
	var b strings.Builder
	require.NoError(t, s.WriteHTML(&b))
	require.NotContains(t, b.String(), "\x1b")
	require.NotContains(t, b.String(), "\u202e")
	checkHarmless(t, b.String())
}

// checkHarmless reads the page as a browser does.
func checkHarmless(t *testing.T, page string) {
	t.Helper()
	doc, err := html.Parse(strings.NewReader(page))
	require.NoError(t, err)
	styles := 0
	for n := range doc.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		require.NotContains(t, []string{"script", "img", "iframe", "object", "embed", "link", "form", "base", "svg"}, n.Data)
		if n.Data == "style" {
			styles++
		}
		for _, a := range n.Attr {
			require.NotRegexp(t, `^on`, a.Key)
			switch a.Key {
			case "href":
				require.Regexp(t, `^https?://`, a.Val)
			case "src":
				t.Errorf("%s has a src: %s", n.Data, a.Val)
			case "style":
				require.Regexp(t, `^width:\d+(\.\d+)?%$`, a.Val)
			}
		}
	}
	require.Equal(t, 1, styles)
	require.Contains(t, page, `default-src 'none'`)
}

// Everything that there is has a place in the page.
func TestHTMLTellsAll(t *testing.T) {
	s := read(t, written(t, sink.JSONL, site()...), Config{})
	s.Source.Cut, s.Source.Damaged, s.Source.FirstDamaged = true, 1234, 7
	s.Crawl = &Crawl{Round: 3, Queued: 4321, Rates: []Rate{{Host: "a.test", PerSecond: 0.25, Pause: 9}}}
	s.Hosts.Listed[0].Reason = "asks for patience"
	var b strings.Builder
	require.NoError(t, s.WriteHTML(&b))
	for _, want := range []string{
		"round 3", "is cut off", "1,234 damaged lines", "4,321", "0.25", "asks for patience", "not found", "timeout", "on 3 pages",
		"http://a.test/logo.png", "loop: ", "1 exact, 1 near", "line 3: no loc", "Kept back by robots.txt: 1", "HTML without a title: 1",
		"Gone: 1", "Ask not to be indexed: 1", "5.0 MiB", "30,000",
	} {
		require.Contains(t, b.String(), want)
	}
	checkHarmless(t, b.String())
	b.Reset()
	require.NoError(t, (&Summary{}).WriteHTML(&b), "of nothing there is a page too")
	require.NotContains(t, b.String(), "NaN")
}

// JSON is read back as it was: programs miss nothing.
func TestJSON(t *testing.T) {
	s := read(t, written(t, sink.JSONL, site()...), Config{})
	data, err := json.Marshal(s)
	require.NoError(t, err)
	back := new(Summary)
	require.NoError(t, json.Unmarshal(data, back))
	require.Equal(t, s, back)
}

func TestSpread(t *testing.T) {
	require.Equal(t, Spread{}, (&histogram{}).spread(1))
	rnd := rand.New(rand.NewPCG(1, 2))
	var h histogram
	var all []float64
	for range 10_000 {
		v := math.Exp(rnd.NormFloat64()*2 + 8)
		h.add(v)
		all = append(all, v)
	}
	slices.Sort(all)
	s := h.spread(10)
	for q, got := range map[float64]float64{0.5: s.P50, 0.95: s.P95, 0.99: s.P99} {
		require.InEpsilon(t, all[int(q*float64(len(all)))-1]/10, got, 0.05)
	}
	require.InDelta(t, all[len(all)-1]/10, s.Max, 1e-9)
	for _, strange := range []float64{0, -1, math.NaN(), math.Inf(1), 1e300} {
		h.add(strange)
	}
	require.LessOrEqual(t, len(h.steps), 64*perOctave+1)
}

func TestSizesAndThousands(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 5 << 20: "5.0 MiB", math.MaxInt64: "8.0 EiB"} {
		require.Equal(t, want, Size(n))
	}
	for s, want := range map[string]string{"0": "0", "999": "999", "1000": "1,000", "-1000": "-1,000", "1234567": "1,234,567"} {
		require.Equal(t, want, Thousands(s))
	}
}
