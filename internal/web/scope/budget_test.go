package scope

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func bound(n int, pattern string, perCrawl bool) Budget {
	return Budget{Match: regexp.MustCompile(pattern), MaxPages: n, PerCrawl: perCrawl}
}

// offered is the URLs that are accepted of those offered in this order. A star in front makes a URL a seed.
func offered(t *testing.T, b *Budgets, urls ...string) (accepted []string) {
	t.Helper()
	for _, text := range urls {
		text, seed := strings.CutPrefix(text, "*")
		u := parse(t, text)
		budget := b.Of(u.String())
		if seed || !b.Spent(budget, u) {
			b.Count(budget, u)
			accepted = append(accepted, text)
		}
	}
	return accepted
}

func TestBudgets(t *testing.T) {
	for _, tc := range []struct {
		name string
		list []Budget
		urls string
		want string
	}{
		{"none", nil, "http://a.test/1 http://a.test/2", "http://a.test/1 http://a.test/2"},
		{
			"of each host",
			[]Budget{bound(1, `/cal/`, false)},
			"http://a.test/cal/1 http://a.test/cal/2 http://b.test/cal/1 http://a.test/x http://a.test/y http://b.test/cal/2",
			"http://a.test/cal/1 http://b.test/cal/1 http://a.test/x http://a.test/y",
		},
		{
			"of all together",
			[]Budget{bound(2, `/cal/`, true)},
			"http://a.test/cal/1 http://b.test/cal/1 http://a.test/cal/2 http://c.test/cal/1",
			"http://a.test/cal/1 http://b.test/cal/1",
		},
		{
			"the first that matches counts",
			[]Budget{bound(1, `/cal/old/`, false), bound(2, `/cal/`, false), bound(9, `.`, true)},
			"http://a.test/cal/old/1 http://a.test/cal/old/2 http://a.test/cal/1 http://a.test/cal/2 http://a.test/cal/3 http://a.test/",
			"http://a.test/cal/old/1 http://a.test/cal/1 http://a.test/cal/2 http://a.test/",
		},
		{
			"seeds count and are accepted",
			[]Budget{bound(2, `.`, false)},
			"*http://a.test/1 *http://a.test/2 *http://a.test/3 http://a.test/4 http://b.test/1 http://b.test/2 *http://b.test/3",
			"http://a.test/1 http://a.test/2 http://a.test/3 http://b.test/1 http://b.test/2 http://b.test/3",
		},
		{
			"a host is one by both schemes, and another by its port",
			[]Budget{bound(1, `.`, false)},
			"http://a.test/1 https://a.test/1 http://a.test:443/ http://a.test:81/1 http://a.test:81/2",
			"http://a.test/1 http://a.test:81/1",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			require.Equal(t, strings.Fields(tc.want), offered(t, NewBudgets(tc.list), strings.Fields(tc.urls)...))
		})
	}
}

// Beyond the room hosts share counters: of none more is accepted than its budget, and of
// those that had a counter before, as much as ever.
func TestBudgetsAreBounded(t *testing.T) {
	b := NewBudgets([]Budget{bound(2, `.`, false)})
	b.counters.room = 100
	of := map[string]int{}
	const hosts = 3000
	for range 3 {
		for i := range hosts {
			u := fmt.Sprintf("http://h%d.test/", i)
			of[u] += len(offered(t, b, u))
		}
	}
	shared := 0
	for i := range hosts {
		n := of[fmt.Sprintf("http://h%d.test/", i)]
		require.LessOrEqual(t, n, 2)
		if n < 2 {
			shared++
			require.GreaterOrEqual(t, i, b.counters.room, "host %d came early", i)
		}
	}
	require.Less(t, shared, hosts/4, "few lose by it") // of 2,900 in 65,536 places 4.4 % meet
	for key := range b.counters.used {
		if key >= sharedCounters {
			b.counters.room--
		}
	}
	require.GreaterOrEqual(t, b.counters.room, 0, "no counters but the shared ones")
}
