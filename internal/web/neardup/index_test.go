package neardup

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestIndex(t *testing.T) {
	x := NewIndex(3)
	for _, step := range []struct {
		url       string
		body, sim uint64
		want      Match
	}{
		{"a", 1, 0xff, Match{}},
		{"b", 1, 0xff, Match{Exact, "a"}},
		{"c", 2, 0xff, Match{Near, "a"}},
		{"d", 3, 0xff ^ 1<<0 ^ 1<<20 ^ 1<<40, Match{Near, "a"}},
		{"e", 4, 0xff ^ 1<<0 ^ 1<<20 ^ 1<<40 ^ 1<<60, Match{}},
		{"f", 5, 0xff ^ 1<<20 ^ 1<<40 ^ 1<<60, Match{Near, "a"}}, // of two the older one
		{"g", 6, 0xf0, Match{}},
		{"h", 7, 0, Match{}}, // no fingerprint
		{"i", 8, 0, Match{}},
		{"j", 8, 0xff, Match{Exact, "i"}}, // exact goes before near
		{"k", 2, 0xff, Match{Near, "a"}},  // that c says the same is not remembered
	} {
		require.Equal(t, step.want, x.Add(step.url, step.body, step.sim), step.url)
	}
	require.Equal(t, Totals{Exact: 2, Near: 4, Clusters: []Cluster{{"a", 1, 4}, {"i", 1, 0}}}, x.Totals())
	require.Equal(t, "exact near ", fmt.Sprint(Exact, " ", Near, " ", None))
}

// Without bits only exact repetitions are found.
func TestIndexOfExact(t *testing.T) {
	x := NewIndex(0)
	require.False(t, x.Near())
	x.Add("a", 1, 7)
	require.Equal(t, Match{}, x.Add("b", 2, 7))
	require.Equal(t, Match{Exact, "b"}, x.Add("c", 2, 9))
}

// The chains find all that a comparison with every page finds, and nothing else.
func TestIndexFindsAll(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6)) //nolint:gosec // the same each time
	x := NewIndex(3)
	type stored struct {
		url string
		sim uint64
	}
	var all []stored
	for i := range 5000 {
		sim := r.Uint64()
		if i > 0 && i%3 == 0 { // near one that is there
			sim = all[r.IntN(len(all))].sim
			for range r.IntN(6) {
				sim ^= 1 << r.IntN(64)
			}
		}
		want := Match{}
		for _, s := range all {
			if Distance(s.sim, sim) <= 3 {
				want = Match{Near, s.url}
				break
			}
		}
		url := fmt.Sprint(i)
		require.Equal(t, want, x.Add(url, uint64(i)+1<<32, sim))
		if want.Kind == None {
			all = append(all, stored{url, sim})
		}
	}
	require.Greater(t, x.Totals().Near, int64(500))
}

// Of pages that come from several goroutines each is counted once.
func TestIndexFromManyGoroutines(t *testing.T) {
	x := NewIndex(3)
	const pages = 500
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range uint64(pages) {
				x.Add(fmt.Sprint(i), i, 0)
				x.Totals()
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, 3*pages, x.Totals().Exact)
}

// The oldest are forgotten, by number or by the bytes of their URLs, and what is there is found.
func TestIndexForgets(t *testing.T) {
	for _, tc := range []struct {
		maxPages, maxBytes int
		url                string
		last               int // so many are remembered
	}{
		{100, 12_800, "%d", 100},
		{3000, 384_000, "%d", 3000},
		{1000, 5000, strings.Repeat("x", 96) + "%04d", 50},
	} {
		x := NewIndex(3)
		x.maxPages, x.maxBytes = tc.maxPages, tc.maxBytes
		sims := func(i int) uint64 { return rand.New(rand.NewPCG(7, uint64(i))).Uint64() } //nolint:gosec // the same each time
		const n = 4000
		for i := range n {
			require.Equal(t, None, x.Add(fmt.Sprintf(tc.url, i), uint64(i), sims(i)).Kind, i)
		}
		for i := n - tc.last; i < n; i++ {
			require.Equal(t, Match{Exact, fmt.Sprintf(tc.url, i)}, x.Add("again", uint64(i), 0))
			require.Equal(t, Match{Near, fmt.Sprintf(tc.url, i)}, x.Add("again", uint64(i+n), sims(i)))
		}
		require.Equal(t, Match{}, x.Add(fmt.Sprintf(tc.url, n), uint64(n-tc.last-1), sims(n-tc.last-1)), "the one before is forgotten")
		require.LessOrEqual(t, len(x.pages), tc.maxPages)
		require.LessOrEqual(t, x.bytes, tc.maxBytes)
	}
}

// The list of clusters is the largest ones, the largest first.
func TestIndexClusters(t *testing.T) {
	x := NewIndex(0)
	const pages = 40
	for i := range pages {
		x.Add(fmt.Sprint("u", i), uint64(i), 0)
	}
	for round := range pages {
		for i := range pages {
			if round < i {
				x.Add("again", uint64(i), 0)
			}
		}
	}
	list := x.Totals().Clusters
	require.Len(t, list, maxClusters)
	for i, c := range list {
		require.Equal(t, Cluster{URL: fmt.Sprint("u", pages-1-i), Exact: int64(pages - 1 - i)}, c)
	}
}
