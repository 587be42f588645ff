package config

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func lines(changes []Change) (list []string) {
	for _, c := range changes {
		list = append(list, c.String())
	}
	return list
}

func TestUpdate(t *testing.T) {
	slow := Host{Match: "a.test", InitialRPS: 1, MinRPS: 0.1, MaxRPS: 2, MinDelay: time.Second}
	fast := Host{Match: "b.test", InitialRPS: 1, MinRPS: 0.1, MaxRPS: 10}
	capped := fast
	capped.Cap = Cap{Kind: "fixed-window", Permits: 5, Per: time.Minute}
	for _, tc := range []struct {
		name             string
		was              []Host
		change           func(*Config)
		applied, refused []string
	}{
		{"nothing", []Host{slow}, func(*Config) {}, nil, nil},
		{"rates", nil, func(c *Config) { c.RateLimit.MaxRPS, c.RateLimit.MinDelay = 5, 2*time.Second }, []string{"ratelimit.max_rps: 10 → 5", "ratelimit.min_delay: 0 → 2s"}, nil},
		{"what was built", nil, func(c *Config) { c.Concurrency, c.Log.Level = 5, "debug" }, []string{"log.level: info → debug"}, []string{"concurrency: 64 → 5"}},
		{"lists and texts", nil, func(c *Config) { c.Scope.Include, c.Output.Path = []string{"a", "b"}, "x.jsonl" }, nil, []string{"scope.include: [] → [a, b]", `output.path: "-" → "x.jsonl"`}},
		{"an empty list is an empty list", nil, func(c *Config) { c.Scope.Include = []string{} }, nil, nil},
		{"a secret", nil, func(c *Config) { c.Fetch.Headers = []string{"Authorization: Bearer x"} }, nil, []string{"fetch.headers: [] → [Authorization: REDACTED]"}},
		{"a new rule", nil, func(c *Config) { c.Hosts = []Host{slow} }, []string{"hosts: [] → [a.test]"}, nil},
		{"another rule", []Host{slow}, func(c *Config) { c.Hosts = []Host{fast, slow} }, []string{"hosts: [a.test] → [b.test, a.test]"}, nil},
		{"a key of a rule", []Host{fast, slow}, func(c *Config) { c.Hosts[1].MaxRPS, c.Hosts[1].MinDelay = 1, 0 }, []string{"hosts[1].max_rps: 2 → 1", "hosts[1].min_delay: 1s → 0"}, nil},
		{"a cap", []Host{slow, capped}, func(c *Config) { c.Hosts[1].Cap.Permits, c.Hosts[1].MaxRPS = 6, 3 }, []string{"hosts[1].max_rps: 10 → 3"}, []string{"hosts[1].cap.permits: 5 → 6"}},
		{"a rule beside a cap", []Host{capped}, func(c *Config) { c.Hosts = []Host{slow, capped} }, nil, []string{"hosts: [b.test] → [a.test, b.test]"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			was, is := Default(), Default()
			was.Hosts = tc.was
			is.Hosts = append([]Host(nil), tc.was...)
			before := was
			before.Hosts = append([]Host(nil), tc.was...)
			tc.change(&is)
			now, applied, refused, err := Update(&was, &is)
			require.NoError(t, err)
			require.Equal(t, tc.applied, lines(applied))
			require.Equal(t, tc.refused, lines(refused))
			require.Equal(t, before, was, "the old one is not touched")
			require.Equal(t, tc.applied, lines(Diff(&was, &now)), "what was applied is the difference")
			require.Equal(t, tc.refused, lines(Diff(&now, &is)), "what was refused is the rest")
		})
	}
}

// The manual names every setting that is live.
func TestManualNamesWhatIsLive(t *testing.T) {
	live := 0
	for _, f := range fields() {
		if f.live {
			require.Contains(t, preamble, f.path)
			live++
		}
	}
	require.Equal(t, 5, live)
}
