package pipeline

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/fetch"
	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/records/sink"
	"github.com/treadlight/crawl/internal/web/scope"
)

// What a worker passed on it does not pass on again; what it records and counts is the
// same each time.
func TestLinksArePassedOnOnce(t *testing.T) {
	w := newWorldOn(t, fetch.Config{})
	var err error
	w.Scope, err = scope.New(scope.Config{MaxDepth: 3, Resources: true})
	require.NoError(t, err)
	w.Extract.Resources, w.Key = true, 42
	p := w.build(t)
	home := parse(t, "http://a.test/")
	w.Scope.AddSeed(home)
	worker := processor{p: p}
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
		r := &result{lease: &frontier.Lease{Item: frontier.Item{URL: home, Found: frontier.Found{Depth: step.depth}, ID: 7}}, rec: &sink.Record{URL: home.String()}}
		worker.content(r, &fetched{lease: r.lease, resp: &fetch.Response{ContentType: "text/html", Body: []byte(step.body)}})
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
