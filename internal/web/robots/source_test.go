package robots_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/web/canonical"
	"github.com/treadlight/crawl/internal/web/robots"
)

// A file is requested where redirects lead, at most five of them, and one that moves to no URL is absent.
func TestFollow(t *testing.T) {
	answers := map[string]robots.Answer{
		"http://a.test/robots.txt":  {Status: 301, Location: "/rules"},
		"http://a.test/rules":       {Status: 200, Body: []byte("User-agent: *\nDisallow: /no")},
		"http://b.test/robots.txt":  {Status: 302, Location: "mailto:b"},
		"http://c.test/robots.txt":  {Status: 302, Location: "/robots.txt"},
		"https://d.test/robots.txt": {Status: 503},
	}
	for origin, want := range map[string]struct {
		kind   robots.Kind
		reason string
		asked  int
	}{
		"http://a.test":  {robots.Found, "status 200", 2},
		"http://b.test":  {robots.Absent, "moved to mailto:b: scheme is not http or https", 1},
		"http://c.test":  {robots.Absent, "more than 5 redirects", 6},
		"https://d.test": {robots.Failed, "status 503", 1},
		"ftp://e.test":   {robots.Failed, "", 0},
	} {
		asked := 0
		res := robots.Follow(origin, func(at canonical.URL) robots.Answer {
			asked++
			return answers[at.String()]
		})
		require.Equal(t, want.kind, res.Kind, origin)
		require.Contains(t, res.Reason, want.reason)
		require.Equal(t, want.asked, asked, origin)
	}
}

// One caller requests the file for all who wait; if it leaves, another does; who waits may leave too.
func TestSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		var obeyed []time.Duration
		s := robots.Source{
			Cache: newCache(t, robots.Config{Agent: agent}), Now: time.Now,
			Ask: func(ctx context.Context, origin string) robots.Result {
				require.Equal(t, "http://a.test", origin)
				asked++
				select {
				case <-ctx.Done():
					return robots.FromAnswer(robots.Answer{Err: ctx.Err()})
				case <-time.After(time.Second):
				}
				return found("User-agent: *\nCrawl-delay: 2\nDisallow: /no")
			},
			Obey: func(_ string, d time.Duration) { obeyed = append(obeyed, d) },
		}
		type got struct {
			e   robots.Entry
			err error
		}
		get := func(ctx context.Context) chan got {
			c := make(chan got, 1)
			go func() {
				e, err := s.Get(ctx, "http://a.test")
				c <- got{e, err}
			}()
			synctest.Wait()
			return c
		}
		first, leave := context.WithCancel(t.Context())
		gone, leaveToo := context.WithCancelCause(t.Context())
		one, two, three := get(first), get(gone), get(t.Context())
		require.Equal(t, 1, asked)
		why := errors.New("enough")
		leaveToo(why)
		require.ErrorIs(t, (<-two).err, why)
		leave()
		require.ErrorIs(t, (<-one).err, context.Canceled)
		last := <-three
		require.NoError(t, last.err)
		require.False(t, last.e.Rules.Check("/no").Allowed)
		require.Equal(t, 2, asked)
		require.Equal(t, []time.Duration{2 * time.Second}, obeyed)
		require.NoError(t, (<-get(t.Context())).err)
		require.Equal(t, 2, asked, "it is cached")
	})
}

// A request that gives up by itself, though the caller has not, is made once for each caller.
func TestSourceWithoutAnAnswer(t *testing.T) {
	asked := 0
	s := robots.Source{
		Cache: newCache(t, robots.Config{Agent: agent}), Now: time.Now,
		Ask: func(context.Context, string) robots.Result {
			asked++
			return robots.FromAnswer(robots.Answer{Err: context.Canceled})
		},
	}
	e, err := s.Get(t.Context(), "http://a.test")
	require.NoError(t, err)
	require.Nil(t, e.Rules)
	require.Equal(t, 1, asked)
}
