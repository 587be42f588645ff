package testsite

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPresets(t *testing.T) {
	for name, tc := range map[string]struct {
		cfg   Config
		hosts int
		urls  int // with content, of all hosts together
	}{
		"mixed":           {Mixed(), 8, 60 + 12 + 50 + 50 + 40 + 40 + 14 + 30 + 4},
		"uniform":         {Uniform(5, 30, 20*ms), 5, 150},
		"uniform, zero":   {Uniform(1, 0, 0), 1, 100},
		"uniform, large":  {Uniform(2, 20_000, 0), 2, 40_000},
		"uniform, single": {Uniform(2, 1, 0), 2, 2},
		"head of line":    {HeadOfLine(3), 23, 23 * 51},
		"only healthy":    {HeadOfLine(0), 20, 20 * 51},
	} {
		r := newRig(t, tc.cfg)
		require.Equal(t, tc.hosts, r.site.Hosts(), name)
		require.Equal(t, tc.urls, r.site.Report().Total.URLs, name)
	}
}

func TestHeadOfLineShape(t *testing.T) {
	r := newRig(t, HeadOfLine(2))
	require.Equal(t, "healthy-20", r.site.Report().Hosts[19].Name)
	require.Equal(t, "slow-2", r.site.Report().Hosts[21].Name)
	require.Len(t, hrefs(t, r.do("GET", "/", 21).Body.Bytes()), 50, "the first page makes the whole queue")
	slow := r.site.hosts[21]
	require.Zero(t, slow.latency(target{kind: kindPage}, 0))
	require.Equal(t, 5*time.Second, slow.latency(target{kind: kindPage, n: 1}, 1))
}
