package pipeline

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/fetch"
	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/lab/testsite"
	"github.com/treadlight/crawl/internal/web/scope"
	"github.com/treadlight/crawl/internal/web/trap"
	"github.com/treadlight/crawl/record"
)

// taken is a State that another process takes at an instant.
type taken struct {
	*journal
	at time.Time
}

var errTaken = errors.New("another has it")

func (s *taken) Owned() error {
	if time.Now().Before(s.at) {
		return nil
	}
	return errTaken
}

// Not a record more is written once the state is another's, though the state has not failed yet.
func TestNothingIsWrittenToAStateOfAnother(t *testing.T) {
	for name, tc := range map[string]struct {
		after time.Duration
		some  bool
	}{"at once": {0, false}, "later": {2 * time.Second, true}} {
		t.Run(name, bubble(func(t *testing.T) {
			w, _ := served(t, map[string]http.Handler{
				"a.test": http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { html(rw, links(50)) }),
			})
			w.limits.InitialRPS, w.limits.MaxRPS = 10, 10
			end := time.Now().Add(tc.after)
			j := newJournal(1)
			w.State = j.state()
			w.State.Store = &taken{j, end}
			p := w.build(t)
			err := w.run(t.Context(), t, p, "http://a.test/")
			require.ErrorIs(t, err, errTaken)
			require.ErrorContains(t, err, "keep the state of the crawl: ")
			require.WithinDuration(t, end, time.Now(), time.Second)
			got := w.out.byURL(t)
			require.Equal(t, tc.some, len(got) > 1)
			require.Less(t, len(got), 51)
			for url, rec := range got {
				require.True(t, rec.FetchedAt.Before(end), "%s at %v, and it was taken at %v", url, rec.FetchedAt, end)
			}
		}))
	}
}

// Archives have what other sinks have, with the bytes of each exchange, and robots.txt with
// its redirects beside that. Without archives nobody keeps bytes.
func TestArchives(t *testing.T) {
	for name, archived := range map[string]bool{"archived": true, "not archived": false} {
		t.Run(name, bubble(func(t *testing.T) {
			mux := http.NewServeMux()
			mux.HandleFunc("/robots.txt", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/rules", http.StatusFound) })
			mux.HandleFunc("/rules", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "User-agent: *\nDisallow: /no\n") })
			mux.HandleFunc("/{$}", func(w http.ResponseWriter, _ *http.Request) { html(w, "<a href=/no>no</a><a href=/gone>gone</a>") })
			w, _ := served(t, map[string]http.Handler{"h.test": mux})
			archive := &memorySink{}
			if archived {
				w.Archives = []record.Sink{archive}
			}
			p := w.must(t, "http://h.test/")
			records := w.out.byURL(t)
			require.Len(t, records, 3, "no robots.txt")
			require.EqualValues(t, 3, p.Snapshot().Records)
			for u, rec := range records {
				require.Equal(t, archived && rec.Status != 0, rec.Exchange != nil, u)
			}
			if !archived {
				require.Empty(t, archive.records)
				return
			}
			all := archive.byURL(t)
			require.Len(t, all, 5)
			for u, begins := range map[string]string{
				"http://h.test/": "HTTP/1.1 200 OK", "http://h.test/gone": "HTTP/1.1 404", "http://h.test/robots.txt": "HTTP/1.1 302", "http://h.test/rules": "HTTP/1.1 200 OK",
			} {
				require.True(t, strings.HasPrefix(string(all[u].Exchange.Response), begins), "%s: %s", u, all[u].Exchange.Response)
				require.True(t, strings.HasPrefix(string(all[u].Exchange.Request), "GET /"), u)
			}
			rules := all["http://h.test/rules"]
			require.Equal(t, "robots", rules.Kind)
			require.Equal(t, "User-agent: *\nDisallow: /no\n", string(rules.Exchange.Payload))
			require.Equal(t, 200, rules.Status)
			require.False(t, rules.FetchedAt.IsZero())
			require.Nil(t, all["http://h.test/no"].Exchange, "it was not asked for")
		}))
	}
}

// TestEachHost walks past more hosts than Discovery describes in one go, of a crawl that is
// over and of one that has not begun.
func TestEachHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const hosts = walked + 30
		w := newWorld(t, testsite.Config{Hosts: []testsite.Host{{Name: "h", Count: hosts, Pages: 2}}})
		seeds := make([]string, hosts)
		for i := range seeds {
			seeds[i] = w.site.URL(i)
		}
		p := w.build(t)
		p.EachHost(func(frontier.HostState) bool { require.Fail(t, "it has not begun"); return false })
		require.NoError(t, w.run(t.Context(), t, p, seeds...))
		seen := make(map[string]bool)
		p.EachHost(func(h frontier.HostState) bool { seen[h.Host] = true; return true })
		require.Len(t, seen, hosts)
		n := 0
		p.EachHost(func(frontier.HostState) bool { n++; return n < 3 })
		require.Equal(t, 3, n)
	})
}

// What a page has too many of is counted, and said once with what to change, rather than lost without a word. A link that
// no URL is long enough for is counted beside those that only the settings forbid, and whatever these are.
func TestLinksThatAreLost(t *testing.T) {
	long := "<a href=/" + strings.Repeat("a", 9000) + "><a href=/" + strings.Repeat("b", 9000) + "><a href=/" + strings.Repeat("c", 8100) + ">"
	for name, tc := range map[string]struct {
		page          string
		maxLinks      int
		traps, report bool
		pages         int
		reason        string
		dropped       int64
	}{
		"too many":          {links(7), 4, false, false, 5, "page_links", 5 * 3},
		"just as many":      {links(7), 7, false, false, 8, "page_links", 0},
		"long, no traps":    {long, 0, false, false, 2, "url_length", 4},
		"long and reported": {long, 0, true, true, 2, "url_length", 4},
		"long and left":     {long, 0, true, false, 1, "url_length", 3},
	} {
		t.Run(name, bubble(func(t *testing.T) {
			w, _ := served(t, map[string]http.Handler{"a.test": plainPage(tc.page)})
			if w.Extract.MaxLinks = tc.maxLinks; tc.traps {
				w.Traps = trap.New(trap.Config{After: 1000, Report: tc.report})
			}
			var log bytes.Buffer
			w.Log = slog.New(slog.NewTextHandler(&log, nil))
			p := w.finish(t, EndDone, "http://a.test/")
			require.Len(t, w.out.byURL(t), tc.pages)
			s := p.Snapshot()
			require.Equal(t, tc.dropped, s.Dropped[tc.reason])
			require.Equal(t, tc.report, s.Suspected[tc.reason] > 0)
			said := strings.Count(log.String(), `msg="links are being dropped" reason=`+tc.reason+` first=http://a.test/ fix="none: `)
			require.Equal(t, tc.dropped > 0, said == 1, log.String())
		}))
	}
}

// What a worker passed on it does not pass on again; what it records and counts is the same each time.
func TestLinksArePassedOnOnce(t *testing.T) {
	w := newWorldOn(t, fetch.Config{})
	var err error
	w.Scope, err = scope.New(scope.Config{MaxDepth: 3, Resources: true})
	require.NoError(t, err)
	w.Extract.Resources, w.Key = true, 42
	p := w.build(t)
	home := parse(t, "http://a.test/")
	w.Scope.AddSeed(home)
	worker, err := p.processor(nil)
	require.NoError(t, err)
	const body = `<a href=/1>1</a> <a href="http://a.test/2">2</a> <a href=http://b.test/>b</a> <img src=/1.png>`
	for _, step := range []struct {
		name  string
		body  string
		depth int32
		pass  []string
		out   scope.Code // of which there is one more in out than before
		outs  int64
		first func()
	}{
		{"all is new", body, 0, []string{"/1", "/2", "/1.png"}, scope.OtherHost, 1, nil},
		{"all is known", body, 0, nil, scope.OtherHost, 2, nil},
		{"deeper the scope must be asked", body, 2, []string{"/1", "/2", "/1.png"}, scope.OtherHost, 3, nil},
		{"less deep is covered", body, 1, nil, scope.OtherHost, 4, nil},
		{"too deep, though known", body, 3, nil, scope.TooDeep, 4, nil},
		{"a resource is not a page", "<img src=/1>", 0, []string{"/1"}, scope.OtherHost, 4, nil},
		{"a new one among them", body + "<a href=/3>", 0, []string{"/1", "/3"}, scope.OtherHost, 5, nil},
		{"the scope grows", body, 0, []string{"/"}, scope.OtherHost, 5, func() { w.Scope.AddSeed(parse(t, "http://b.test/")) }},
		{"the frontier has no room", body, 0, []string{"/1", "/2", "/", "/1.png"}, scope.OtherHost, 5, func() { p.stats.full.Store(true) }},
	} {
		if step.first != nil {
			step.first()
		}
		r := &result{lease: &frontier.Lease{Item: frontier.Item{URL: home, Found: frontier.Found{Depth: step.depth}, ID: 7}}, rec: &record.Record{URL: home.String()}}
		worker.content(t.Context(), r, &fetched{lease: r.lease, resp: &fetch.Response{ContentType: "text/html", Body: []byte(step.body)}})
		var got []string
		for _, l := range r.links {
			got = append(got, l.item.URL.Path())
			require.Equal(t, l.item.URL.Fingerprint(42), l.fp)
			require.Equal(t, frontier.Item{URL: l.item.URL, Found: frontier.Found{Referrer: home.String(), FoundOn: 7, Depth: step.depth + 1}}, l.item)
		}
		require.Equal(t, step.pass, got, step.name)
		require.Equal(t, step.outs, p.stats.out[step.out].Load(), step.name)
		if step.body == body {
			require.Equal(t, []string{"http://a.test/1", "http://a.test/2", "http://b.test/"}, r.rec.Links, step.name)
			require.Equal(t, []string{"http://a.test/1.png"}, r.rec.Resources, step.name)
		}
	}
}
