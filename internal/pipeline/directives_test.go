package pipeline

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/fetch"
	"github.com/treadlight/crawl/internal/lab/fetchtest"
	"github.com/treadlight/crawl/internal/records/sink"
	"github.com/treadlight/crawl/internal/web/scope"
)

// pagesThatSay is a site whose front page leads to pages with something to say to robots,
// each with a link below its own name and an image.
func pagesThatSay(t *testing.T, asked map[string]int) fetch.Config {
	t.Helper()
	var mu sync.Mutex // guards asked while the crawl goes
	heads := map[string]string{
		"/plain": "", "/noindex": `<meta name=robots content=noindex>`, "/nofollow": `<meta name=robots content=nofollow>`,
		"/ours": `<meta name=treadlight content=none>`, "/theirs": `<meta name=googlebot content=none>`,
	}
	tags := map[string]string{
		"/tagged": "nofollow, noarchive", "/others": "otherbot: none", "/gone": "unavailable_after: 1999-12-31",
		"/soon": "unavailable_after: 2999-12-31",
	}
	network := fetchtest.Serve(t, map[string]http.Handler{"h.test": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		asked[r.URL.Path]++
		mu.Unlock()
		head, known := heads[r.URL.Path]
		if tag := tags[r.URL.Path]; tag != "" {
			w.Header().Set("X-Robots-Tag", tag)
			known = true
		}
		switch {
		case r.URL.Path == "/":
			body := `<a rel=nofollow href=/never></a><link rel=next href=/plain><link rel=alternate hreflang=de type=text/html href=/theirs>`
			for name := range heads {
				body += "<a href=" + name + "></a>"
			}
			for name := range tags {
				body += "<a href=" + name + "></a>"
			}
			html(w, body)
		case known:
			html(w, fmt.Sprintf("%s<a href=%s/link></a><img src=%[2]s/image>", head, r.URL.Path))
		default:
			http.NotFound(w, r)
		}
	})})
	return fetch.Config{DialContext: network.DialContext}
}

func TestPagesThatSay(t *testing.T) {
	for _, tt := range []struct {
		name             string
		follow, skip     bool
		agent            string
		barred, left     []string // pages whose links are not followed, and those without a record
		nofollow, hidden int64
	}{
		{"as they ask", false, false, "treadlight", []string{"/nofollow", "/ours", "/tagged"}, nil, 4, 0},
		{"under another name", false, false, "", []string{"/nofollow", "/tagged"}, nil, 3, 0},
		{"without those that are not to be found", false, true, "treadlight", []string{"/nofollow", "/ours", "/tagged"}, []string{"/noindex", "/ours", "/gone"}, 4, 3},
		{"against their wishes", true, false, "treadlight", nil, nil, 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				asked := map[string]int{}
				w := newWorldOn(t, pagesThatSay(t, asked))
				w.FollowNofollow, w.SkipNoindex, w.Extract.Agent, w.Extract.Resources = tt.follow, tt.skip, tt.agent, true
				var err error
				w.Scope, err = scope.New(scope.Config{MaxDepth: scope.Unlimited, Resources: true})
				require.NoError(t, err)
				p, err := w.crawl(t, "http://h.test/")
				require.NoError(t, err)
				records := w.out.byURL(t)
				for _, page := range []string{"/plain", "/noindex", "/nofollow", "/ours", "/theirs", "/tagged", "/others", "/gone", "/soon"} {
					require.Equal(t, 1, asked[page], page)
					require.Equal(t, 1, asked[page+"/image"], "what %s is made of", page)
					barred, left := slices.Contains(tt.barred, page), slices.Contains(tt.left, page)
					require.Equal(t, !barred, asked[page+"/link"] == 1, "the link of %s", page)
					require.Equal(t, !left, records["http://h.test"+page] != nil, "the record of %s", page)
				}
				require.Equal(t, tt.follow, asked["/never"] == 1)
				snap := p.Snapshot()
				require.Equal(t, tt.nofollow, snap.OutOfScope[reasonNofollow])
				require.Equal(t, tt.hidden, snap.Unindexed)
				require.EqualValues(t, len(records), snap.Records)

				front := records["http://h.test/"]
				require.Equal(t, []string{"http://h.test/never"}, front.NofollowLinks)
				require.Equal(t, "http://h.test/plain", front.Next)
				require.Equal(t, []sink.Alternate{{Href: "http://h.test/theirs", HrefLang: "de", Type: "text/html"}}, front.Alternates)
				require.Equal(t, []string{"nofollow", "noarchive"}, records["http://h.test/tagged"].Directives)
				require.Nil(t, records["http://h.test/plain"].Directives)
			})
		})
	}
}

// What a page says of its links is left out of records that have none.
func TestNofollowLinksAreLinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorldOn(t, pagesThatSay(t, map[string]int{}))
		w.OmitLinks = true
		began := time.Now()
		_, err := w.crawl(t, "http://h.test/")
		require.NoError(t, err)
		front := w.out.byURL(t)["http://h.test/"]
		require.Empty(t, front.NofollowLinks)
		require.Len(t, front.Alternates, 1)
		require.False(t, front.FetchedAt.Before(began))
	})
}
