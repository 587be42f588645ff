package disk

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/frontier"
)

// A view has what is committed, of a state that is in use as of one that is not.
func TestView(t *testing.T) {
	dir := t.TempDir()
	_, err := Look(dir)
	require.ErrorIs(t, err, ErrMissing)
	s := openState(t, dir, Config{})
	at := time.UnixMilli(1_700_000_000_000)
	seed := testItem(t, 1, "http://a.test/")
	seed.Seed, seed.Queued = true, at
	put(s, seed, false)
	put(s, testItem(t, 2, "http://a.test/x"), false)
	s.SetMeta("k", "v")
	done(s, 1, frontier.Visit{At: at, Status: 404, Class: "client_error"})
	s.Commit(nil)
	require.NoError(t, s.Flush(t.Context()))
	put(s, testItem(t, 3, "http://a.test/later"), false)

	for _, used := range []bool{true, false} {
		if !used {
			require.NoError(t, s.Close())
		}
		v, err := Look(dir)
		require.NoError(t, err)
		p, err := v.Page("http://a.test/")
		require.NoError(t, err)
		require.Equal(t, &Page{Kind: "page", Seed: true, QueuedAt: at, VisitedAt: at, Round: 1, Status: 404, Class: "client_error"}, p)
		p, err = v.Page("http://a.test/x")
		require.NoError(t, err)
		require.True(t, p.Queued)
		require.Zero(t, p.Round)
		p, err = v.Page("http://a.test/later")
		require.NoError(t, err)
		require.Nil(t, p, "nothing of it is committed")
		value, err := v.Meta("k")
		require.NoError(t, err)
		require.Equal(t, "v", value)
		value, err = v.Meta("none")
		require.NoError(t, err)
		require.Empty(t, value)
		var seeds []string
		for it, err := range v.Seeds() {
			require.NoError(t, err)
			seeds = append(seeds, it.URL.String())
		}
		require.Equal(t, []string{"http://a.test/"}, seeds)
	}
}
