package pipeline

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/fetch"
	"github.com/treadlight/crawl/internal/web/canonical"
	"github.com/treadlight/crawl/internal/web/rendering"
	"github.com/treadlight/crawl/internal/web/robots"
)

// drawer is a Renderer without a browser, for all pages.
type drawer struct {
	draw func(ctx context.Context, page *rendering.Page) (*rendering.Result, error)

	mu    sync.Mutex // guards what follows
	paths []string
}

func (*drawer) Start(context.Context) error        { return nil }
func (*drawer) Wants(canonical.URL, []byte) string { return "test" }
func (*drawer) Close()                             {}

func (d *drawer) Render(ctx context.Context, page *rendering.Page) (*rendering.Result, error) {
	d.mu.Lock()
	d.paths = append(d.paths, page.URL.Path())
	d.mu.Unlock()
	return d.draw(ctx, page)
}

// Only an answer that has a page is rendered; where its scripts would have gone is followed as its links are.
func TestWhatIsRendered(t *testing.T) {
	for follow, want := range map[bool][]string{false: {"/", "/by-script"}, true: {"/", "/by-script", "/by-closed", "/by-tagged"}} {
		t.Run(fmt.Sprint("follow nofollow: ", follow), bubble(func(t *testing.T) {
			pages := noRobots(func(rw http.ResponseWriter, r *http.Request) {
				rw.Header().Set("Content-Type", "text/html")
				switch r.URL.Path {
				case "/":
					fmt.Fprint(rw, `<a href=/204>1</a><a href=/205>2</a><a href=/300>3</a><a href=/304>4</a><a href=/empty>5</a><a href=/closed>6</a><a href=/tagged>7</a>`)
				case "/204", "/205", "/300", "/304":
					var status int
					_, _ = fmt.Sscanf(r.URL.Path, "/%d", &status)
					rw.WriteHeader(status)
					if status == 300 {
						fmt.Fprint(rw, "which one?")
					}
				case "/empty":
				case "/closed":
					fmt.Fprint(rw, `<meta name=robots content=nofollow>x`)
				case "/tagged":
					rw.Header().Set("X-Robots-Tag", "nofollow")
					fmt.Fprint(rw, "x")
				default:
					fmt.Fprint(rw, "x")
				}
			})
			w, _ := hookedWorld(t, fetch.Config{}, pages)
			d := &drawer{draw: func(_ context.Context, page *rendering.Page) (*rendering.Result, error) {
				to := map[string]string{"/": "/by-script", "/closed": "/by-closed", "/tagged": "/by-tagged"}[page.URL.Path()]
				if to == "" {
					return &rendering.Result{}, nil
				}
				return &rendering.Result{Links: []string{to}}, nil
			}}
			w.Renderer, w.FollowNofollow = d, follow
			var l calls
			w.OnSkip = func(s Skip) { l.add("%s %s", s.URL, s.Reason) }
			p := w.must(t, "http://a.test/")
			got := w.out.byURL(t)
			rendered := append(slices.Clone(want), "/closed", "/tagged")
			require.ElementsMatch(t, rendered, d.paths)
			require.Equal(t, []string{"http://a.test/by-closed"}, got["http://a.test/closed"].Links, "it is told of in any case")
			if !follow {
				require.ElementsMatch(t, []string{"http://a.test/by-closed nofollow", "http://a.test/by-tagged nofollow"}, l.lines)
				require.EqualValues(t, 2, p.Snapshot().OutOfScope[reasonNofollow])
			}
			for path := range strings.FieldsSeq("/204 /205 /300 /304 /empty") {
				require.Nil(t, got["http://a.test"+path].Rendered, path)
			}
		}))
	}
}

// A page that is over while it asks for a robots.txt leaves the others theirs.
func TestRobotsForSeveralPages(t *testing.T) {
	bubble(func(t *testing.T) {
		asked := 0
		w, _ := served(t, map[string]http.Handler{
			"a.test": files{"/": "x"},
			"cdn.test": http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/robots.txt" {
					fmt.Fprint(rw, "script")
					return
				}
				if asked++; asked == 1 {
					<-r.Context().Done() // the one that asks leaves
					return
				}
				http.NotFound(rw, r)
			}),
		})
		var err error
		w.RenderRobots, err = robots.New(robots.Config{Agent: "Treadlight"})
		require.NoError(t, err)
		w.Renderer = &drawer{draw: func(ctx context.Context, page *rendering.Page) (*rendering.Result, error) {
			u, err := canonical.Parse("http://cdn.test/app.js")
			require.NoError(t, err)
			ask := func(ctx context.Context) chan error {
				out := make(chan error, 1)
				go func() {
					_, err := page.Ask(ctx, &rendering.Subrequest{URL: u, Code: true, Request: fetch.Request{URL: u.String()}})
					out <- err
				}()
				synctest.Wait()
				return out
			}
			first, leave := context.WithCancel(ctx)
			a, b := ask(first), ask(ctx)
			leave()
			require.ErrorIs(t, <-a, context.Canceled)
			return &rendering.Result{}, <-b
		}}
		w.must(t, "http://a.test/")
		require.Nil(t, w.out.byURL(t)["http://a.test/"].Error)
		require.Equal(t, 2, asked)
	})(t)
}
