package pipeline

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/fetch"
	"github.com/treadlight/crawl/internal/lab/fetchtest"
)

// The pages of a host are asked for in the order that was chosen.
func TestOrderOfAHost(t *testing.T) {
	// A tree: the page /a links to /aa and /ab, and so on to a depth of four.
	tree := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p := r.URL.Path; len(p) < 4 {
			html(w, fmt.Sprintf("<a href=%sa></a><a href=%sb></a>", p, p))
			return
		}
		html(w, "leaf")
	})
	for name, tt := range map[string]struct {
		order  Order
		scores []Score
		want   []string
	}{
		"found":   {OrderFound, nil, []string{"/", "/a", "/b", "/aa", "/ab", "/ba", "/bb", "/aaa"}},
		"breadth": {OrderBreadth, nil, []string{"/", "/a", "/b", "/aa", "/ab", "/ba", "/bb", "/aaa"}},
		"depth":   {OrderDepth, nil, []string{"/", "/a", "/aa", "/aaa", "/aab", "/ab", "/aba", "/abb"}},
		"scores":  {OrderBreadth, []Score{{regexp.MustCompile(`/b`), 5}, {regexp.MustCompile(`b$`), -5}}, []string{"/", "/b", "/ba", "/bb", "/baa", "/bab", "/bba", "/bbb"}},
		// Points decide before depth, and of equals the one found first goes, whatever it was found on.
		"depth and scores": {OrderDepth, []Score{{regexp.MustCompile(`b$`), 1}}, []string{"/", "/b", "/bb", "/bbb", "/bba", "/ba", "/bab", "/baa"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				net := fetchtest.Serve(t, map[string]http.Handler{"h.test": tree})
				w := newWorldOn(t, fetch.Config{DialContext: net.DialContext})
				w.Robots, w.PerHost, w.Concurrency, w.Processors = nil, 1, 1, 1
				w.limits.InitialRPS = 1 // so that links are known before the next page is due
				var err error
				w.Rank, err = NewRank(tt.order, tt.scores)
				require.NoError(t, err)
				p, err := w.crawl(t, "http://h.test/")
				require.NoError(t, err)
				requireEnd(t, p, EndDone)
				var got []string
				for _, rec := range w.out.records {
					got = append(got, rec.URL[len("http://h.test"):])
				}
				require.Len(t, got, 15)
				require.Equal(t, tt.want, slices.Clip(got[:8]))
			})
		})
	}
}
