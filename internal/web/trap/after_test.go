package trap

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// counter is a site whose every page says the same and leads to the next one.
func counter(path string) *paper {
	n := 0
	_, _ = fmt.Sscanf(path, "/%d", &n)
	return &paper{"Page", frame + fmt.Sprint("Page ", n), []string{fmt.Sprintf("/%d", n+1)}}
}

// By default a trap is left as soon after a thousand pages as else after the first.
func TestAfter(t *testing.T) {
	atOnce := len(walk(t, Config{}, 5000, counter, "/").fetched)
	for _, after := range []int{1000, 200} {
		v := walk(t, Config{After: after}, 5000, counter, "/")
		require.Equal(t, [NumDecisions]int{PatternBudget: 1}, v.refused)
		require.InDelta(t, after+atOnce, len(v.fetched), 2)
	}
}

// The pages of a host with a thousand of them are neither read nor left, whatever they say
// and whatever their dates, ids and titles; it has URLs beyond.
func TestSmallSitesAreWhole(t *testing.T) {
	for name, site := range map[string]func(path string) *paper{
		"one page a thousand times": func(path string) *paper {
			return &paper{"Page not found", "Not found", counter(path).links}
		},
		"links alone": func(path string) *paper {
			return &paper{"", "", counter(path).links}
		},
		"dates far away": func(path string) *paper {
			n := 0
			_, _ = fmt.Sscanf(path, "/%d", &n)
			return &paper{"Day", "Nothing", []string{fmt.Sprintf("/%d/12/31", n+3000)}}
		},
		"session ids": func(path string) *paper {
			return &paper{"Page", frame, []string{fmt.Sprintf("/?sid=%x", draw(path).Uint64()|1<<63)}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			v := walk(t, Config{After: 1000}, 1000, site, "/1")
			require.Len(t, v.fetched, 1000)
			require.Equal(t, [NumDecisions]int{}, v.refused)
			require.Zero(t, v.read)
		})
	}
}

// Hosts are judged by their own pages: those of others do not make them large.
func TestHostsAreCountedApart(t *testing.T) {
	j := newJudge(t, Config{After: 10})
	for i := range 40 {
		u := parse(t, fmt.Sprintf("http://a%d.test/%d", i%4, i))
		require.False(t, j.RecordVisit(u, "").Read)
	}
	require.Zero(t, j.large.Load())
	for i := range 100 {
		see(t, j, fmt.Sprintf("http://a1.test/n/%d", i), "Page", "all pages of this site say the very same thing")
	}
	require.Equal(t, int32(1), j.large.Load())
	require.Equal(t, PatternBudget, j.CheckLink(parse(t, "http://a1.test/n/x"), thisYear))
	require.Equal(t, Follow, j.CheckLink(parse(t, "http://a2.test/n/x"), thisYear))
}

// Of many hosts those that had no page for the longest time are forgotten.
func TestManyHosts(t *testing.T) {
	j := newJudge(t, Config{After: 16})
	large := parse(t, "http://large.test/")
	for range 17 {
		j.countPage(large)
	}
	for i := range 3 * maxHosts {
		j.countPage(parse(t, fmt.Sprintf("http://h%d.test/", i)))
		if i%1000 == 0 {
			require.True(t, j.countPage(large))
		}
	}
	require.Equal(t, maxHosts, j.hosts.Len())
	require.True(t, j.countPage(large))
	require.Equal(t, int32(1), j.large.Load())
	j = newJudge(t, Config{}) // all of them are large
	for i := range 2 * maxHosts {
		j.countPage(parse(t, fmt.Sprintf("http://h%d.test/", i)))
	}
	require.Equal(t, maxHosts, j.hosts.Len())
	require.Equal(t, int(j.large.Load()), j.hosts.Len())
}

// Pages that say the same and lead nowhere new have an end, and are visited whole.
func TestWhatDoesNotGrowIsNoTrap(t *testing.T) {
	const pages = 3000
	v := walk(t, Config{}, 1<<30, func(path string) *paper {
		if path != "/" {
			return &paper{"Item", frame + "Item " + path[1:], []string{"/"}}
		}
		p := &paper{title: "Items"}
		for i := range pages {
			p.links = append(p.links, fmt.Sprint("/", i))
		}
		return p
	}, "/")
	require.Len(t, v.fetched, pages+1)
	require.Less(t, v.read, 400, "only the first trial of each pattern reads them")
}

// Index pages that hold nothing but links are news by where they lead.
func TestIndexesOfLinks(t *testing.T) {
	const items = 20_000
	v := walk(t, Config{}, 1<<30, func(path string) *paper {
		if strings.HasPrefix(path, "/item/") {
			return article(path, 20)
		}
		n := 0
		_, _ = fmt.Sscanf(path, "/index/%d", &n)
		p := &paper{}
		for i := n * 20; i < min((n+1)*20, items); i++ {
			p.links = append(p.links, fmt.Sprint("/item/", i))
		}
		if (n+1)*20 < items {
			p.links = append(p.links, fmt.Sprint("/index/", n+1))
		}
		return p
	}, "/index/0")
	require.Equal(t, items+items/20, len(v.fetched))
	require.Equal(t, [NumDecisions]int{}, v.refused)
}
