package ratelimit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/ratelimit/control"
	"github.com/treadlight/crawl/internal/ratelimit/header"
)

func TestSnapshotOfOneDomain(t *testing.T) {
	r := newRig(t, nil)
	p, _ := r.grant(host)
	r.to(time.Second)
	r.Feedback(host, Feedback{StatusCode: 200, Latency: 100 * time.Millisecond, Retry: true})
	r.to(1500 * time.Millisecond)
	r.Feedback(host, status(503))
	s := r.Snapshot()
	require.Len(t, s.Top, 1)
	text, err := json.Marshal(s)
	require.NoError(t, err)
	require.JSONEq(t, `{
		"enabled": true, "requests": 1, "throttled": 0, "denied": 0, "retries": 1, "over_released": 0,
		"evicted": 0, "over_cap": 0, "domains": 1, "tombstones": 0, "open": 0, "half_open": 0,
		"in_flight": 1, "waiting": 0, "top": [{
			"domain": "a.test", "fill_rate": 0.55, "ceiling_rps": 10, "tokens": 1, "avg_latency_ms": 99.334001, "p95_latency_ms": 99.334001,
			"latency_target_ms": 1000, "error_rate": 0.5, "state": "closed", "consecutive_fails": 1, "in_flight": 1, "waiting": 0,
			"next_permit_in_ms": 0, "limited_by": "learned",
			"reason": "learned rate 0.55/s: a step up per prompt answer, down by a factor at overload",
			"events": [{
				"time": "2026-01-02T03:04:06.5Z", "cause": "failures", "state": "closed", "from_rps": 1.1, "to_rps": 0.55,
				"hold_ms": 0, "text": "requests failed at 1.10/s: down from 1.10/s to 0.550/s"}]}]}`, string(text))
	var back LimiterSnapshot
	require.NoError(t, json.Unmarshal(text, &back))
	p.Release()
}

// The reasons are what people read when they ask why a host is slow.
func TestReasons(t *testing.T) {
	for _, tc := range []struct {
		want   string
		change func(c *Config)
		do     func(r *rig)
	}{
		{"starting at 1/s: nothing learned yet", nil, func(*rig) {}},
		{"learned rate 1.1/s: a step up per prompt answer, down by a factor at overload", nil, func(r *rig) { r.request(host, ok(0)) }},
		{"robots.txt asks for 5s between requests", nil, func(r *rig) { r.SetCrawlDelay(host, 5*time.Second) }},
		{"the server asked to wait 7s more", nil, func(r *rig) { r.Feedback(host, Feedback{RetryAfter: 7 * time.Second}) }},
		{"your rule: 2s between requests", func(c *Config) { c.MinDelay = 2 * time.Second }, func(*rig) {}},
		{"the maximum rate: at most 1/s", func(c *Config) { c.MaxRPS = 1 }, func(*rig) {}},
		{"all hosts together: at most 0.5/s", func(c *Config) { c.GlobalRPS = 0.5 }, func(r *rig) { r.request("b.test", ok(0)) }},
		{"circuit open after failures, next try in 15s", func(c *Config) { c.ConsecutiveFailThreshold = 1 }, func(r *rig) { r.Feedback(host, status(500)) }},
	} {
		r := newRig(t, tc.change)
		tc.do(r)
		require.EqualValues(t, tc.want, r.see(host).Reason, "%+v", tc)
	}
}

func TestSnapshotShowsTheLatestAndIsBounded(t *testing.T) {
	r := newRig(t, func(c *Config) { c.SnapshotTop = 3 })
	for i := range 100 {
		r.request(fmt.Sprintf("%d.test", i*37%100), ok(0))
		r.clk.Advance(time.Millisecond)
	}
	s := r.Snapshot()
	require.Equal(t, 100, s.Domains)
	var names []string
	for _, d := range s.Top {
		names = append(names, d.Domain)
	}
	require.Equal(t, []string{"63.test", "26.test", "89.test"}, names)
	none := newRig(t, func(c *Config) { c.SnapshotTop = -1 })
	none.request(host, ok(0))
	require.Empty(t, none.Snapshot().Top)
}

func TestSnapshotLogs(t *testing.T) {
	r := newRig(t, nil)
	r.request(host, ok(0))
	var out bytes.Buffer
	slog.New(slog.NewTextHandler(&out, nil)).Info("limiter", "state", r.Snapshot())
	require.Contains(t, out.String(), "state.requests=1 state.throttled=0")
	require.False(t, strings.Contains(out.String(), host), "domains are not logged")
}

// A plan that has run out is made anew before it is told, or the rate would be that of a
// quota which is over, and the reason that of now.
func TestRateIsToldWithItsReason(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Strategy, c.InitialRPS, c.MaxRPS = control.NameSteer, 10, 10 })
	r.request(host, Feedback{StatusCode: 200, Latency: time.Millisecond, Quota: header.Quota{Limit: 60, Remaining: 20, Reset: 10 * time.Second}})
	d := r.see(host)
	require.InDelta(t, 2, d.FillRate, 0.2)
	require.Contains(t, d.Reason, "the host says that 20 more requests may come within 10s")
	r.to(11 * time.Second)
	d = r.see(host)
	require.InDelta(t, 6, d.FillRate, 0.5)
	require.Contains(t, d.Reason, "6.00/s: the average of the quota that the host told")
	r.to(23 * time.Second)
	d = r.see(host)
	require.InDelta(t, 10, d.FillRate, 0.5)
	require.Equal(t, d.FillRate, r.Snapshot().Top[0].FillRate)
	require.NotContains(t, d.Reason, "the host says")
}

// Brief says what Inspect does.
func TestBrief(t *testing.T) {
	r := newRig(t, nil)
	_, known := r.Brief("new.test")
	require.False(t, known)
	r.Feedback("a.test", Feedback{StatusCode: 200, Latency: 30 * time.Millisecond})
	for _, domain := range []string{"a.test", "A.test:80", "new.test"} {
		d, wantKnown := r.Inspect(domain)
		b, known := r.Brief(domain)
		require.Equal(t, wantKnown, known, domain)
		require.Equal(t, Brief{d.FillRate, d.LimitRPS, d.AvgLatencyMS, d.State, d.Waiting}, b, domain)
	}
}
