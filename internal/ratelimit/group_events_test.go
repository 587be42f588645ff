package ratelimit

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/ratelimit/control"
)

// That hosts are paced as one, and that they are no longer, is told once each, with whom
// it rests on and why, to the hook and in the snapshot.
func TestEventsOfGroups(t *testing.T) {
	var told []Event
	b := newBlock(t, 20, func(c *Config) {
		c.OnEvent = func(e Event) {
			if e.Cause == control.CauseMerged || e.Cause == control.CauseParted {
				told = append(told, e)
			}
		}
	})
	common := &leaky{rate: 20, burst: 10}
	b.limitOf = func(int) *leaky { return common }
	b.run(t, 2*time.Minute, 0)
	require.Len(t, told, 1)
	e := told[0]
	require.Equal(t, control.CauseMerged, e.Cause)
	require.Equal(t, "ip:192.0.2.1", e.Domain)
	require.Greater(t, len(e.Hosts), 1)
	require.IsIncreasing(t, e.Hosts)
	require.Subset(t, hostNames(b), e.Hosts)
	require.InDelta(t, 20, e.ToRPS, 5)
	require.Regexp(t, `^20 hosts at this address are limited as one and paced together, at about [\d.]+/s for all: h\d.* were refused at the same times, and a trial `, e.Text)
	require.Equal(t, told, b.Snapshot().GroupEvents)
	require.Equal(t, 1, b.Snapshot().Merged)
	d, _ := b.Inspect(b.hosts[0].name)
	require.Equal(t, "ip:192.0.2.1", d.Group.Name)
	require.Equal(t, 20, d.Group.Hosts)
	require.True(t, d.Group.Learned)
	require.InDelta(t, 20, d.Group.Rate, 4)
	require.Contains(t, d.Group.Reason, "ip:192.0.2.1: 20 hosts are limited as one")

	free, tight := &leaky{rate: 1e6, burst: 1e6}, &leaky{rate: 0.2}
	b.limitOf = func(i int) *leaky {
		if i == 0 {
			return tight
		}
		return free
	}
	b.run(t, 6*time.Minute, 0)
	require.Len(t, told, 2)
	e = told[1]
	require.Equal(t, control.CauseParted, e.Cause)
	require.Equal(t, []string{"h0.test"}, e.Hosts)
	require.Equal(t, "20 hosts at this address are paced one by one again: h0.test was refused again and again while the others were served", e.Text)
	require.Equal(t, told, b.Snapshot().GroupEvents)
}

func hostNames(b *block) (names []string) {
	for _, h := range b.hosts {
		names = append(names, h.name)
	}
	return names
}

// The events of groups are bounded; a hook that comes late is told the last, in order.
func TestGroupNewsAreBounded(t *testing.T) {
	var told []string
	r := newRig(t, func(c *Config) { c.OnEvent = func(e Event) { told = append(told, e.Text) } })
	g := r.newGroup(0, addressKey(blockAddress))
	var want []string
	for i := range 3 * keptEvents {
		g.note(0, control.CauseParted, nil, 0, 0, strconv.Itoa(i))
		want = append(want, fmt.Sprintf("0 hosts at this address are %d", i))
	}
	want = want[2*keptEvents:]
	r.reportGroups()
	require.Equal(t, want, told)
	require.Len(t, r.Snapshot().GroupEvents, keptEvents)
	r.reportGroups()
	require.Equal(t, want, told, "once each")
}

func TestSomeOf(t *testing.T) {
	for want, hosts := range map[string][]string{
		"a":                    {"a"},
		"a and b":              {"a", "b"},
		"a, b, c and d":        {"a", "b", "c", "d"},
		"a, b, c and 2 others": {"a", "b", "c", "d", "e"},
	} {
		require.Equal(t, want, someOf(hosts))
	}
}
