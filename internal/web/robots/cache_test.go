package robots_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/treadlight/crawl/internal/ratelimit/outcome"
	"github.com/treadlight/crawl/internal/web/robots"
)

type classed struct {
	error
	class outcome.Class
}

func (c classed) Class() outcome.Class { return c.class }

func fail(class outcome.Class) error { return classed{errors.New("broken"), class} }

func TestFromAnswer(t *testing.T) {
	body := []byte("User-agent: *\nDisallow: /x")
	for _, tc := range []struct {
		answer robots.Answer
		kind   robots.Kind
		reason string
	}{
		{robots.Answer{Status: 200, Body: body}, robots.Found, "status 200"},
		{robots.Answer{Status: 204}, robots.Found, "status 204"},
		{robots.Answer{Status: 200, Body: body, Err: fail(outcome.TooLarge)}, robots.Found, "too_large: broken"},
		{robots.Answer{Status: 200, Body: body, Err: fail(outcome.Decode)}, robots.Failed, "decode: broken"},
		{robots.Answer{Status: 200, Body: body, Err: io.ErrUnexpectedEOF}, robots.Failed, "network: unexpected EOF"},
		{robots.Answer{Status: 301, Location: "/y"}, robots.Moved, "status 301"},
		{robots.Answer{Status: 308, Location: "/y", Hops: 4, Err: io.ErrUnexpectedEOF}, robots.Moved, "status 308"},
		{robots.Answer{Status: 302, Location: "/y", Hops: 5}, robots.Absent, "more than 5 redirects"},
		{robots.Answer{Status: 302}, robots.Absent, "status 302"},
		{robots.Answer{Status: 304}, robots.Absent, "status 304"},
		{robots.Answer{Status: 401}, robots.Absent, "status 401"},
		{robots.Answer{Status: 403}, robots.Absent, "status 403"},
		{robots.Answer{Status: 404, Err: io.ErrUnexpectedEOF}, robots.Absent, "status 404"},
		{robots.Answer{Status: 408}, robots.Absent, "status 408"},
		{robots.Answer{Status: 429}, robots.Throttled, "status 429"},
		{robots.Answer{Status: 429, Err: io.ErrUnexpectedEOF}, robots.Throttled, "status 429"},
		{robots.Answer{Status: 500}, robots.Failed, "status 500"},
		{robots.Answer{Status: 503}, robots.Failed, "status 503"},
		{robots.Answer{Status: 599}, robots.Failed, "status 599"},
		{robots.Answer{Status: 999}, robots.Failed, "status 999"},
		{robots.Answer{Err: fail(outcome.TooLarge)}, robots.Failed, "too_large: broken"},
		{robots.Answer{Err: fail(outcome.NoHost)}, robots.Failed, "no_host: broken"},
		{robots.Answer{Err: fail(outcome.TLS)}, robots.Failed, "tls: broken"},
		{robots.Answer{Err: context.DeadlineExceeded}, robots.Failed, "timeout: context deadline exceeded"},
		{robots.Answer{Err: context.Canceled}, robots.NoAnswer, "canceled: context canceled"},
		{robots.Answer{Status: 200, Body: body, Err: context.Canceled}, robots.NoAnswer, "canceled: context canceled"},
		{robots.Answer{}, robots.NoAnswer, "status 0"},
	} {
		got := robots.FromAnswer(tc.answer)
		require.Equal(t, tc.kind, got.Kind, "%+v", tc.answer)
		require.Equal(t, tc.reason, got.Reason, "%+v", tc.answer)
		require.Equal(t, tc.kind == robots.Found, got.File != nil)
		require.Equal(t, tc.kind == robots.Moved, got.Location != "")
	}
}

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

const origin = "http://a.test:80"

func newCache(t testing.TB, cfg robots.Config) *robots.Cache {
	t.Helper()
	if cfg.Agent == "" {
		cfg.Agent = agent
	}
	c, err := robots.New(cfg)
	require.NoError(t, err)
	return c
}

func status(code int) robots.Result { return robots.FromAnswer(robots.Answer{Status: code}) }

func found(file string) robots.Result {
	return robots.FromAnswer(robots.Answer{Status: 200, Body: []byte(file)})
}

// TestCacheLife walks an origin through a day and more, at exact instants.
func TestCacheLife(t *testing.T) {
	c := newCache(t, robots.Config{})
	at := func(d time.Duration) robots.Entry { return c.Lookup(origin, start.Add(d)) }
	begin := func(d time.Duration) bool { return c.Begin(origin, start.Add(d)) }
	answer := func(d time.Duration, r robots.Result) robots.Entry { return c.Answer(origin, start.Add(d), r) }
	day := 24 * time.Hour

	require.Equal(t, robots.Entry{}, at(0))
	require.True(t, at(0).Due(start))

	require.True(t, begin(0))
	require.False(t, begin(0), "asked twice")
	require.Equal(t, robots.Pending, at(0).State)
	require.Nil(t, at(0).Rules)

	e := answer(time.Second, found("User-agent: *\nDisallow: /x\nSitemap: /s"))
	require.Equal(t, e, at(time.Second))
	require.Equal(t, robots.Known, e.State)
	require.Equal(t, start.Add(time.Second+day), e.RetryAt)
	require.Equal(t, []string{"/s"}, e.Sitemaps)
	require.False(t, e.Rules.Check("/x").Allowed)
	require.True(t, e.Rules.Check("/y").Allowed)
	require.False(t, begin(day), "still known")

	expired := day + time.Second
	require.Equal(t, robots.Unknown, at(expired).State)
	require.Nil(t, at(expired).Rules, "a copy is used for longer than a day")
	require.True(t, begin(expired))
	e = answer(expired, status(503))
	require.Equal(t, robots.Unreachable, e.State)
	require.False(t, e.Rules.Check("/x").Allowed)
	require.True(t, e.Rules.Check("/y").Allowed, "the old copy should be in force")
	require.Equal(t, start.Add(expired+2*time.Second), e.RetryAt)
	require.False(t, begin(expired+time.Second), "before RetryAt")
	require.True(t, begin(expired+2*time.Second))
	require.True(t, at(expired+2*time.Second).Rules.Check("/y").Allowed, "also while asking again")
	e = answer(expired+2*time.Second, status(500))
	require.Equal(t, 2, e.Attempts)
	require.Equal(t, start.Add(expired+6*time.Second), e.RetryAt)

	e = at(expired + day)
	require.Equal(t, robots.Unreachable, e.State)
	require.Nil(t, e.Rules, "the old copy is used for longer than a day more")
	require.Equal(t, "status 500", e.Reason)

	require.True(t, begin(expired+day))
	e = answer(expired+day, status(404))
	require.Equal(t, robots.Known, e.State)
	require.Zero(t, e.Attempts)
	require.True(t, e.Rules.Check("/x").Allowed)
}

// TestCacheRetries pins the schedule after each kind of end.
func TestCacheRetries(t *testing.T) {
	pauses := []time.Duration{2, 4, 8, 16, 32, 64, 128, 256, 512, 600, 600, 600}
	for name, tc := range map[string]struct {
		result   robots.Result
		state    robots.State
		schedule []time.Duration // seconds
		attempts int             // after the first
	}{
		"failed":      {status(500), robots.Unreachable, pauses, 1},
		"unreachable": {robots.FromAnswer(robots.Answer{Err: io.ErrUnexpectedEOF}), robots.Unreachable, pauses, 1},
		"throttled":   {status(429), robots.Unknown, pauses, 1},
		"we gave up":  {robots.FromAnswer(robots.Answer{Err: context.Canceled}), robots.Unknown, []time.Duration{0, 0}, 0},
	} {
		c := newCache(t, robots.Config{})
		now := start
		for i, pause := range tc.schedule {
			require.True(t, c.Begin(origin, now), "%s, try %d", name, i)
			e := c.Answer(origin, now, tc.result)
			require.Equal(t, tc.state, e.State, name)
			require.Equal(t, pause*time.Second, e.RetryAt.Sub(now), "%s, try %d", name, i)
			require.Equal(t, tc.attempts*(i+1), e.Attempts, name)
			require.Nil(t, e.Rules, name)
			require.False(t, e.Due(e.RetryAt.Add(-1)), name)
			require.True(t, e.Due(e.RetryAt), name)
			now = e.RetryAt
		}
	}
}

// What waiting will not cure is known as such, and no longer once it is cured.
func TestCacheLasting(t *testing.T) {
	for _, tc := range []struct {
		answer  robots.Answer
		lasting bool
	}{
		{robots.Answer{Err: &net.DNSError{IsNotFound: true}}, true},
		{robots.Answer{Err: &tls.CertificateVerificationError{Err: errors.New("expired")}}, true},
		{robots.Answer{Err: &net.DNSError{IsTemporary: true}}, false},
		{robots.Answer{Err: io.EOF}, false},
		{robots.Answer{Status: 500}, false},
	} {
		c, err := robots.New(robots.Config{Agent: "treadlight"})
		require.NoError(t, err)
		now := time.Unix(0, 0)
		e := c.Answer("http://a.test", now, robots.FromAnswer(tc.answer))
		require.Equal(t, tc.lasting, e.Lasting, "%+v", tc.answer)
		require.Equal(t, robots.Unreachable, e.State)
		require.False(t, c.Answer("http://a.test", now, robots.FromAnswer(robots.Answer{Status: 404})).Lasting)
	}
}

func TestCacheMoved(t *testing.T) {
	c := newCache(t, robots.Config{})
	require.True(t, c.Begin(origin, start))
	e := c.Answer(origin, start, robots.FromAnswer(robots.Answer{Status: 301, Location: "/y"}))
	require.Equal(t, robots.Pending, e.State, "the caller has not finished asking")
	require.False(t, c.Begin(origin, start))
	require.Equal(t, robots.Known, c.Answer(origin, start, found("")).State)
}

func TestCacheBounds(t *testing.T) {
	name := func(i int) string { return fmt.Sprintf("http://h%d.test:80", i) }
	t.Run("origins", func(t *testing.T) {
		c := newCache(t, robots.Config{MaxOrigins: 3})
		for i := range 4 {
			require.True(t, c.Begin(name(i), start))
			require.Equal(t, robots.Known, c.Answer(name(i), start, status(404)).State)
		}
		require.Equal(t, robots.Entry{}, c.Lookup(name(0), start))
		require.Equal(t, robots.Known, c.Lookup(name(1), start).State)
		require.Equal(t, robots.Known, c.Answer(name(0), start, status(404)).State, "an answer for a forgotten origin")
	})
	t.Run("bytes", func(t *testing.T) {
		big := found("User-agent: *\n" + strings.Repeat("Disallow: /some/longer/path\n", 1000))
		c := newCache(t, robots.Config{MaxBytes: 500_000})
		for i := range 20 {
			c.Answer(name(i), start, big)
		}
		known := 0
		for i := range 20 {
			if c.Lookup(name(i), start).State == robots.Known {
				known++
			}
		}
		require.Greater(t, known, 1)
		require.Less(t, known, 6)
		require.Equal(t, robots.Known, c.Lookup(name(19), start).State)
		c = newCache(t, robots.Config{MaxBytes: 1})
		require.Equal(t, robots.Known, c.Answer(origin, start, big).State, "one origin always fits")
	})
}

func TestCacheConfig(t *testing.T) {
	for want, cfg := range map[string]robots.Config{
		"Config.Agent is \"\"":    {},
		"Config.Agent is \"*\"":   {Agent: "*"},
		"Config.MaxOrigins is -1": {Agent: "x", MaxOrigins: -1},
	} {
		_, err := robots.New(cfg)
		require.ErrorContains(t, err, want)
	}
}

// TestCacheOneRequest lets many ask at once: one gets the request, all get the answer.
func TestCacheOneRequest(t *testing.T) {
	c := newCache(t, robots.Config{})
	var begun atomic.Int32
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for range 100 {
				if c.Begin(origin, start) {
					begun.Add(1)
					c.Answer(origin, start, found("User-agent: *\nDisallow: /x"))
				}
				if r := c.Lookup(origin, start).Rules; r != nil && r.Check("/x").Allowed {
					t.Error("allowed what is forbidden")
				}
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, 1, begun.Load())
}

// TestCacheLaws drives a cache at random and checks what must hold at every step: at most one request is out, none
// before it is due, and no rules are older than two days.
func TestCacheLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, err := robots.New(robots.Config{Agent: agent})
		require.NoError(t, err)
		now, out := start, false
		var good time.Time // when rules were last put in force
		results := []robots.Result{
			status(404), status(429), status(500), found("User-agent: *\nDisallow: /x"),
			robots.FromAnswer(robots.Answer{Err: context.Canceled}), robots.FromAnswer(robots.Answer{Status: 301, Location: "/"}),
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(20*time.Hour)).Draw(t, "pause")))
			e := c.Lookup(origin, now)
			if began := c.Begin(origin, now); began != (e.Due(now) && !out) {
				t.Fatalf("Begin = %v, want it as Due says: %+v, out %v", began, e, out)
			}
			out = out || e.Due(now)
			if e.Rules != nil && now.Sub(good) >= 48*time.Hour {
				t.Fatalf("rules of %v are in force at %v", good, now)
			}
			if out && rapid.Bool().Draw(t, "answer") {
				r := results[rapid.IntRange(0, len(results)-1).Draw(t, "result")]
				c.Answer(origin, now, r)
				out = r.Kind == robots.Moved
				if r.Kind == robots.Found || r.Kind == robots.Absent {
					good = now
				}
			}
		}
	})
}
