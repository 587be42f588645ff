package integration_test

import (
	"bytes"
	"fmt"
	"hash/fnv"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/assembly"
	"github.com/treadlight/crawl/internal/lab/fetchtest"
	"github.com/treadlight/crawl/internal/pipeline"
	"github.com/treadlight/crawl/record"
)

// prose is so many words of a language with some thousand words; the same seed says the same.
func prose(seed string, n int) string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(seed))
	r := rand.New(rand.NewPCG(h.Sum64(), 1)) //nolint:gosec // the same each time
	syllables := strings.Fields("ba be bi bo bu da de di do du ka ke ki ko ku la le li lo lu")
	var b strings.Builder
	for range n {
		for range 2 + r.IntN(2) {
			b.WriteString(syllables[r.IntN(len(syllables))])
		}
		b.WriteByte(' ')
	}
	return b.String()
}

// trapSite is a site with a trap: its pages beside the trap are /real/1 to /real/20, each of
// which leads to the next, and every page of the trap leads to the first of them.
type trapSite func(path, query string) (title, body string, links []string)

func (s trapSite) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/html")
	const frame = "<p>A site that has much to say about itself, its owners and its terms of use.</p>"
	n := 0
	switch {
	case r.URL.Path == "/robots.txt" || r.URL.Path == "/sitemap.xml":
		http.NotFound(w, r)
	case strings.HasPrefix(r.URL.Path, "/real/"):
		_, _ = fmt.Sscanf(r.URL.Path, "/real/%d", &n)
		next := ""
		if n < 20 {
			next = anchors(fmt.Sprintf("/real/%d", n+1))
		}
		fmt.Fprintf(w, "<title>%s</title>%s<p>%s</p>%s", prose(r.URL.Path, 3), frame, prose(r.URL.Path, 60), next)
	default:
		title, body, links := s(r.URL.Path, r.URL.RawQuery)
		fmt.Fprintf(w, "<title>%s</title>%s<h1>%s</h1><p>%s</p>%s", title, frame, title, body, anchors(append(links, "/real/1")...))
	}
}

// trapped crawls hosts and returns the records, the crawl's last state and its log.
func trapped(t *testing.T, change func(cfg *assembly.Config), hosts map[string]http.Handler, seeds ...string) ([]record.Record, pipeline.Snapshot, string) {
	t.Helper()
	net := fetchtest.Serve(t, hosts)
	out, log := &ledger{}, &bytes.Buffer{}
	cfg := assembly.DefaultConfig()
	cfg.Sinks, cfg.Log = []record.Sink{out}, slog.New(slog.NewTextHandler(log, nil))
	cfg.Traps.After = 0
	if change != nil {
		change(&cfg)
	}
	c := runOver(t, cfg, net.DialContext, seeds...)
	byURL(t, out.list)
	return out.list, c.Snapshot(), log.String()
}

// fetchedOf counts the pages that were asked for: those of the trap, and the others.
func fetchedOf(list []record.Record) (trap, others int) {
	for i := range list {
		switch rec := &list[i]; {
		case rec.Attempt == 0 || rec.Kind != "page":
		case strings.Contains(rec.URL, "/real/"):
			others++
		default:
			trap++
		}
	}
	return trap, others
}

// trapZoo has a site for each way in which a crawl learns of a trap; package trap has many more.
var trapZoo = []struct {
	name string
	most int // pages of the trap
	why  string
	site trapSite
}{
	{"filters in every combination", 300, "parameters", func(_, query string) (string, string, []string) {
		var links []string
		for name := range strings.FieldsSeq("color size brand price") {
			for value := range strings.FieldsSeq("a b c") {
				if !strings.Contains(query, name+"=") {
					links = append(links, "/shop?"+strings.Trim(query+"&"+name+"="+value, "&"))
				}
			}
		}
		r := rand.New(rand.NewPCG(uint64(len(query)), 7)) //nolint:gosec // the same each time
		rows := ""
		for range 8 {
			rows += "<p>" + prose(fmt.Sprint("product", r.IntN(40)), 3) + "</p>"
		}
		return "Shop", rows, links
	}},
	{"a counter", 90, "pattern_budget", func(_, query string) (string, string, []string) {
		n := 0
		_, _ = fmt.Sscanf(query, "n=%d", &n)
		return fmt.Sprint("Page ", n), fmt.Sprintf("You are visitor %d.", 7919*n), []string{fmt.Sprintf("/next?n=%d", n+1)}
	}},
	{"session ids", 400, "sessions", func(path, query string) (string, string, []string) {
		page := 0
		_, _ = fmt.Sscanf(path, "/page/%d", &page)
		id := rand.New(rand.NewPCG(uint64(len(path)), uint64(len(prose(query+path, 9))))).Uint64() //nolint:gosec // the same each time
		var links []string
		for i := range 5 {
			links = append(links, fmt.Sprintf("/page/%d?sid=%x", (5*page+i)%40, id+uint64(page)))
		}
		return prose(fmt.Sprint(page), 3), prose(fmt.Sprint(page, "text"), 80), links
	}},
}

// Each trap is left within a stated number of pages, is told of once with the reason, and
// what is beside it is all there.
func TestTrapsAreLeft(t *testing.T) {
	for _, tc := range trapZoo {
		t.Run(tc.name, bubble(func(t *testing.T) {
			list, snap, log := trapped(t, nil, map[string]http.Handler{"a.test": tc.site}, "http://a.test/")
			trap, others := fetchedOf(list)
			t.Logf("%d pages of the trap, %d beside it; dropped %v, left %d", trap, others, snap.Dropped, snap.Trapped)
			require.LessOrEqual(t, trap, tc.most)
			require.Equal(t, 20, others)
			require.Positive(t, snap.Dropped[tc.why]+snap.Trapped)
			require.Equal(t, 1, strings.Count(log, `msg="links that lead nowhere are left" host=a.test reason=`+tc.why+" first="), log)
			left := int64(0)
			for _, rec := range list {
				if rec.Error != nil {
					require.Equal(t, "trap", rec.Error.Class)
					left++
				}
			}
			require.Equal(t, snap.Trapped, left, "what was accepted has a record")
			if tc.why == "sessions" {
				paths := map[string]bool{}
				for url := range byURL(t, list) {
					path, _, _ := strings.Cut(url, "?")
					paths[path] = true
				}
				for i := range 40 {
					require.True(t, paths[fmt.Sprintf("http://a.test/page/%d", i)], i)
				}
			}
		}))
	}
}

// With default settings a trap is left as soon after the thousandth page as else after the
// first, and a site of a thousand pages is visited whole, whatever it says.
func TestTrapsByDefault(t *testing.T) {
	byDefault := func(cfg *assembly.Config) { cfg.Traps.After = assembly.DefaultConfig().Traps.After }
	for _, tc := range []struct {
		name        string
		pages       int // that the site has
		least, most int
	}{
		{"a site of a thousand pages", 1000, 1000, 1000},
		{"a counter", 1 << 30, 1000, 1090},
	} {
		t.Run(tc.name, bubble(func(t *testing.T) {
			site := trapSite(func(path, _ string) (string, string, []string) {
				n := 1
				_, _ = fmt.Sscanf(path, "/%d", &n)
				if n == tc.pages {
					return "Page", "Nothing.", nil
				}
				return "Page", "Nothing.", []string{fmt.Sprintf("/%d", n+1)}
			})
			list, snap, _ := trapped(t, byDefault, map[string]http.Handler{"a.test": site}, "http://a.test/")
			trap, others := fetchedOf(list)
			t.Logf("%d pages of the trap, dropped %v", trap, snap.Dropped)
			require.GreaterOrEqual(t, trap, tc.least)
			require.LessOrEqual(t, trap, tc.most)
			require.Equal(t, 20, others)
			require.Equal(t, tc.pages > 1000, snap.Dropped["pattern_budget"] > 0)
		}))
	}
}

// With traps.report a trap is told of and followed; without traps nothing is told of, and nothing left.
func TestTrapsAreFollowed(t *testing.T) {
	for _, report := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			list, snap, log := trapped(t, func(cfg *assembly.Config) { cfg.Traps.Report, cfg.Traps.Enabled, cfg.MaxPages = report, report, 300 },
				map[string]http.Handler{"a.test": trapZoo[1].site}, "http://a.test/")
			trap, _ := fetchedOf(list)
			require.Greater(t, trap, 270)
			require.Empty(t, snap.Dropped)
			require.Equal(t, report, snap.Suspected["pattern_budget"] > 0)
			require.Equal(t, map[bool]int{true: 1}[report], strings.Count(log, "nowhere"), log)
		})
	}
}

// Seeds are visited even if they look like a trap or pages like them have nothing new.
func TestSeedsAreNoTraps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seeds := []string{"http://a.test/a/b/a/b/a/b/a/b/a/b", "http://a.test/x/9000/01"}
		for i := range 100 {
			seeds = append(seeds, fmt.Sprintf("http://a.test/same/%d", i))
		}
		list, snap, _ := trapped(t, nil, map[string]http.Handler{"a.test": trapSite(func(string, string) (string, string, []string) {
			return "The same", "The same.", nil
		})}, seeds...)
		trap, others := fetchedOf(list)
		require.Equal(t, len(seeds), trap)
		require.Equal(t, 20, others)
		require.Zero(t, snap.Trapped)
	})
}

// Pages that repeat others are marked, and counted.
func TestDuplicates(t *testing.T) {
	text := prose("text", 400)
	for _, find := range []string{"off", "exact", "near"} {
		synctest.Test(t, func(t *testing.T) {
			mux := http.NewServeMux()
			mux.HandleFunc("/robots.txt", http.NotFound)
			mux.HandleFunc("/sitemap.xml", http.NotFound)
			same := page("<p>" + text + "</p>" + anchors("/exact"))
			mux.Handle("/{$}", same) // one after the other, so that it is known which is first
			mux.Handle("/exact", page("<p>"+text+"</p>"+anchors("/exact")+anchors("/near")))
			mux.Handle("/near", page("<p>"+text+"</p><i>seen 17 times</i>"+anchors("/other")))
			mux.Handle("/other", page("<p>"+prose("other", 400)+"</p>"+anchors("/again")))
			mux.Handle("/again", same)
			list, snap, _ := trapped(t, func(cfg *assembly.Config) { cfg.Duplicates.Find = find }, map[string]http.Handler{"a.test": mux}, "http://a.test/")
			records := byURL(t, list)
			pages, _ := fetchedOf(list)
			require.Equal(t, 5, pages)
			again, near := records["http://a.test/again"], records["http://a.test/near"]
			switch find {
			case "off":
				require.Nil(t, snap.Duplicates)
				require.Empty(t, again.DuplicateOf)
			case "exact":
				require.Equal(t, "exact", again.Duplicate)
				require.Equal(t, "http://a.test/", again.DuplicateOf)
				require.Empty(t, near.Duplicate)
				require.Empty(t, near.SimHash)
				require.EqualValues(t, 1, snap.Duplicates.Exact)
			case "near":
				require.Equal(t, "exact", again.Duplicate)
				require.Equal(t, "near", near.Duplicate)
				require.Equal(t, "http://a.test/", near.DuplicateOf)
				require.Len(t, near.SimHash, 16)
				require.Empty(t, records["http://a.test/other"].Duplicate)
				require.Equal(t, "http://a.test/", snap.Duplicates.Clusters[0].URL)
			}
		})
	}
}
