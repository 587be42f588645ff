package config

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestCapsOfHosts(t *testing.T) {
	l := mustLoad(t, yamlFile(`hosts:
- match: "*.example.org"
  cap: {kind: sliding-window-log, permits: 10, per: 1s}
  max_rate: 5
  max_in_flight: 2
  min_delay: 100ms
  quota: {permits: 5000, per: 24h}
- match: a.test
  cap: {kind: concurrency, permits: 3}
- match: b.test
  cap:
  quota: {kind: sliding-window-log, permits: 7, per: 1m}
`))
	require.Equal(t, []Host{
		{
			Match: "*.example.org", InitialRPS: 1, MinRPS: 0.1, MaxRPS: 5, MinDelay: 100 * time.Millisecond, MaxInFlight: 2,
			Cap: Cap{"sliding-window-log", 10, time.Second}, Quota: Cap{"fixed-window", 5000, 24 * time.Hour},
		},
		{Match: "a.test", InitialRPS: 1, MinRPS: 0.1, MaxRPS: 10, Cap: Cap{Kind: "concurrency", Permits: 3}},
		{Match: "b.test", InitialRPS: 1, MinRPS: 0.1, MaxRPS: 10, Quota: Cap{"sliding-window-log", 7, time.Minute}},
	}, l.Config.Hosts)
	for path, want := range map[string]string{
		"hosts[0].cap.permits":   "file crawl.yaml:3",
		"hosts[0].max_rps":       "file crawl.yaml:4",
		"hosts[0].quota.kind":    "default",
		"hosts[2].quota.kind":    "file crawl.yaml:12",
		"hosts[0].quota.per":     "file crawl.yaml:7",
		"hosts[0].max_in_flight": "file crawl.yaml:5",
	} {
		require.Equal(t, want, l.Origins[path].String(), path)
	}
	require.NoError(t, l.Config.Validate())

	var y strings.Builder
	require.NoError(t, l.WriteYAML(&y))
	require.Contains(t, y.String(), `    cap:
      kind: sliding-window-log              # file crawl.yaml:3
      permits: 10                           # file crawl.yaml:3
`)
	require.Equal(t, l.Config, mustLoad(t, yamlFile(y.String())).Config)
	var j strings.Builder
	require.NoError(t, l.WriteJSON(&j))
	require.Contains(t, j.String(), `"quota": {
          "kind": "fixed-window",
          "per": "24h",
          "permits": 5000
        }`)
}

func TestWrongCaps(t *testing.T) {
	for _, c := range []struct{ rule, want string }{
		{"cap: {kind: sliding, permits: 1, per: 1s}", `hosts[0].cap.kind: "sliding" is not a choice; give one of token-bucket, fixed-window, sliding-window, sliding-window-log, leaky-bucket, concurrency`},
		{"cap: {permits: 1, per: 1s}", "hosts[0].cap.kind: is missing; give one of token-bucket, "},
		{"cap: {kind: leaky-bucket, permits: 1}", "hosts[0].cap.per: is missing; give a duration"},
		{"cap: {kind: leaky-bucket, per: 1s}", "hosts[0].cap.permits: is missing; give a whole number of requests between 1 and 1000000"},
		{"cap: {kind: leaky-bucket, per: 1s, permits: 0}", "hosts[0].cap.permits: 0 is below 1; give"},
		{"cap: {kind: leaky-bucket, per: 0, permits: 1}", "hosts[0].cap.per: 0 is below 1ms; give"},
		{"cap: {kind: leaky-bucket, per: 5, permits: 1}", `hosts[0].cap.per: 5 has no unit; write "5s" for seconds`},
		{"cap: {kind: concurrency, per: 1s, permits: 1}", "hosts[0].cap.per: is not for the kind concurrency"},
		{"cap: {kind: leaky-bucket, per: 1s, permit: 1}", "hosts[0].cap.permit: is not a setting; did you mean hosts[0].cap.permits?"},
		{"cap: {kind: leaky-bucket, per: 1s, permits: 1, permits: 2}", "hosts[0].cap.permits: is set already on line 2; remove one of the two"},
		{"cap: 10", "hosts[0].cap: is a single value; give a group such as {permits: 10, per: 1s}"},
		{"quota: {kind: leaky-bucket, permits: 1, per: 1h}", `hosts[0].quota.kind: "leaky-bucket" is not a choice; give one of fixed-window, sliding-window, sliding-window-log`},
		{"quota: {permits: 1}", "hosts[0].quota.per: is missing"},
		{"qota: {permits: 1, per: 1h}", "hosts[0].qota: is not a setting"},
		{"max_in_flight: 1001", "hosts[0].max_in_flight: 1001 is above 1000; give a whole number of requests between 1 and 1000, or 0 for per_host_max"},
		{"max_rate: 1, max_rps: 2", "hosts[0].max_rps: is set already on line 2; remove one of the two"},
	} {
		_, err := Load(yamlFile("hosts:\n- {match: a.test, " + c.rule + "}\n"))
		require.ErrorContains(t, err, c.want, c.rule)
		if !strings.Contains(c.want, "did you mean") { // what was meant is missing, too
			require.Len(t, problems(t, yamlFile("hosts:\n- {match: a.test, "+c.rule+"}\n")), 1, c.rule)
		}
	}
}

func TestCapsThatAProgramSetsAreChecked(t *testing.T) {
	c := Default()
	c.Hosts = []Host{{Match: "a.test", InitialRPS: 1, MinRPS: 1, MaxRPS: 1, Quota: Cap{Permits: 3, Per: time.Hour}}}
	require.NoError(t, c.Validate(), "a quota needs no kind")
	c.Hosts[0].Cap = Cap{Permits: 3, Per: time.Hour}
	require.ErrorContains(t, c.Validate(), "hosts[0].cap.kind: is missing")
}

func TestCapsThatOffWouldNotKeepAreToldOf(t *testing.T) {
	l := mustLoad(t, yamlFile("ratelimit: {strategy: \"off\", global_bytes: 2MiB}\nhosts: [{match: a.test, quota: {permits: 1, per: 1h}}]\n"))
	require.Contains(t, strings.Join(l.Warnings, "\n"), "ratelimit.strategy is off and paces nothing: ratelimit.global_bytes, hosts[0] will not be kept")
	l = mustLoad(t, yamlFile("ratelimit: {global_bytes: 2MiB}\n"))
	require.NotContains(t, strings.Join(l.Warnings, "\n"), "will not be kept")
	require.EqualValues(t, 2<<20, l.Config.RateLimit.GlobalBytes)
}
