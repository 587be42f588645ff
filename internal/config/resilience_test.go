package config

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/document"
	"github.com/treadlight/crawl/resilience/binder"
)

const everyPolicy = `resilience:
  retry:
    max_retries: 2
    backoff: {type: constant, base_ms: 1500}
  timeout: {seconds: 2.5}
  circuit_breaker:
    circuit_name: "5"
    break_seconds: 20
    failure_threshold: 4
  bulkhead: {max_concurrency: 2}
  bulkhead_isolation: {}
`

func TestPolicies(t *testing.T) {
	src := yamlFile(everyPolicy)
	src.Env = []string{"CRAWL_RATELIMIT_OPEN_STATE_DURATION=90s"}
	l := mustLoad(t, src)
	require.Equal(t, &binder.Model{
		Retry:             &binder.Retry{MaxRetries: 2, Backoff: binder.Backoff{Type: binder.BackoffConstant, Base: 1500 * time.Millisecond, MaxDelay: 30 * time.Second, Jitter: true}},
		Timeout:           &binder.Timeout{Limit: 2500 * time.Millisecond},
		Bulkhead:          &binder.Bulkhead{MaxConcurrency: 2, MaxQueue: 100, QueueTimeout: 10 * time.Second},
		BulkheadIsolation: &binder.BulkheadIsolation{MaxConcurrency: 10, MaxQueue: 100, QueueTimeout: 10 * time.Second},
	}, l.Config.Resilience)
	require.Equal(t, "file crawl.yaml:1", l.Origins["resilience"].String())
	require.NoError(t, l.Config.Validate())
	require.Equal(t, 4, l.Config.RateLimit.ConsecutiveFailThreshold)
	require.Equal(t, 2, l.Config.RateLimit.HalfOpenProbes, "what the circuit does not say is that of ratelimit")
	require.Equal(t, "file crawl.yaml:9", l.Origins["ratelimit.consecutive_fail_threshold"].String())
	require.Equal(t, 90*time.Second, l.Config.RateLimit.OpenStateDuration, "a stronger layer")
}

func TestPoliciesInTheSpellingsOfTheirDocument(t *testing.T) {
	want := mustLoad(t, yamlFile(everyPolicy)).Config
	for name, text := range map[string]string{
		"crawl.json": `{"Resilience": {"Retry": {"MaxRetries": 2, "Backoff": {"Type": "constant", "BaseMs": 1500}}, "Timeout": {"Seconds": 2.5},
			"CircuitBreaker": {"CircuitName": "5", "BreakSeconds": 20, "FailureThreshold": 4}, "Bulkhead": {"MaxConcurrency": 2}, "BulkheadIsolation": {}}}`,
		"crawl.yaml": "resilience: {Resilience: {Retry: {MaxRetries: 2, backoff: {Type: Constant, BaseMs: 1500}}, Timeout: {Seconds: 2.5}, " +
			"CircuitBreaker: {CircuitName: 5, BreakSeconds: 20, failure_threshold: 4}, Bulkhead: {MaxConcurrency: 2}, BulkheadIsolation: {}}}",
	} {
		l := mustLoad(t, Sources{File: name, Reader: strings.NewReader(text)})
		require.Equal(t, want, l.Config, name)
		require.Equal(t, fromFile, l.Origins["resilience"].Source, name)
	}
}

func TestNoPolicies(t *testing.T) {
	for _, text := range []string{"", "resilience:", "resilience: {}", "resilience: {Resilience: {}}", "resilience: # {timeout: {}}"} {
		require.Equal(t, Default(), mustLoad(t, yamlFile(text)).Config, text)
	}
}

func TestWrongPolicies(t *testing.T) {
	for _, c := range []struct {
		text string
		want []string
	}{
		{"resilience:\n  retry:\n    backoff:\n      base_ms: 0\n  timeout: {seconds: 0}\n  bulkhead: {max_concurency: 3}\ndepth: x", []string{
			`depth: "x" is not a whole number; give a whole number of links between -1 and 1000000 [file crawl.yaml:7]`,
			"resilience.bulkhead.max_concurency: is not a setting; did you mean max_concurrency? [file crawl.yaml:6]",
			"resilience.retry.backoff.base_ms: 0 is below 1; give a number of milliseconds from 1 to 3600000 [file crawl.yaml:4]",
			"resilience.timeout.seconds: 0 is below 0.001; give a number of seconds from 0.001 to 86400 [file crawl.yaml:5]",
		}},
		{"\nresilience: 5", []string{"resilience: is a single value instead of a group of settings [file crawl.yaml:2]"}},
		{"resilience: {timeout: }", []string{"resilience.timeout: is nothing instead of a group of settings; write {} for the defaults, or remove the line [file crawl.yaml:1]"}},
		{"resilience: {timeout: {}, Timeout: {}}", []string{"resilience.Timeout: is set already as timeout on line 1; remove one of the two [file crawl.yaml:1]"}},
		{"resilience: {}\nResilience: {}", []string{"resilience: is set already on line 1; remove one of the two [file crawl.yaml:2]"}},
		{"resilence: {}", []string{"resilence: is not a setting; did you mean resilience? [file crawl.yaml:1]"}},
		{"depth: 1\nresilience:\n  hedging: {}\n  fallback: {status_codes: [500]}", []string{
			"resilience.fallback: is not for a crawl, whose records are of what hosts have answered and of nothing made up; remove it (crawl.Client can have it) [file crawl.yaml:2]",
			"resilience.hedging: is not for a crawl, which has one request at a time under way for a URL; remove it (crawl.Client can have it) [file crawl.yaml:2]",
		}},
		{"resilience: {circuit_breaker: {success_threshold: 1001}}", []string{
			"ratelimit.half_open_probes: 1001 is above 1000; give a whole number of requests between 1 and 1000 [file crawl.yaml:1]",
		}},
		{"resilience:\n  circuit_breaker: {failure_threshold: 3, success_threshold: 3}\nratelimit: {consecutive_fail_threshold: 4, half_open_probes: 3}", []string{
			"resilience.circuit_breaker.failure_threshold: 3 contradicts ratelimit.consecutive_fail_threshold, which is 4 [file crawl.yaml:3]; they are two names for one value, give one of them [file crawl.yaml:2]",
		}},
	} {
		require.Equal(t, c.want, problems(t, yamlFile(c.text)), c.text)
	}
}

func TestPoliciesAreNotLive(t *testing.T) {
	was, is := mustLoad(t, yamlFile("")).Config, mustLoad(t, yamlFile("resilience: {timeout: {seconds: 3}, bulkhead: {}}")).Config
	now, applied, refused, err := Update(&was, &is)
	require.NoError(t, err)
	require.Empty(t, applied)
	require.Nil(t, now.Resilience)
	require.Equal(t, []string{"resilience: {} → {timeout: {seconds: 3}, bulkhead: {max_concurrency: 10, max_queue_depth: 100, queue_timeout_seconds: 10}}"}, lines(refused))
	again := mustLoad(t, yamlFile("resilience: {Timeout: {Seconds: 3}, bulkhead: {max_concurrency: 10}}")).Config
	require.Empty(t, Diff(&is, &again), "the same in other words")
	other := mustLoad(t, yamlFile("resilience: {circuit_breaker: {break_seconds: 3}}")).Config
	_, _, refused, err = Update(&is, &other)
	require.NoError(t, err)
	require.Contains(t, lines(refused), "ratelimit.open_state_duration: 15s → 3s")
	require.Len(t, refused, 2)
}

// The manual has the defaults and bounds by which a file is read, and every key.
func TestTheManualOfPolicies(t *testing.T) {
	var all []string
	rows := regexp.MustCompile("\n\\| `resilience.([^`]+)` \\| [^|]+ \\| `([^`]+)` \\| (?:([^| ]+) to ([^| ]+))? \\|")
	for _, row := range rows.FindAllStringSubmatch(policyTable, -1) {
		key, def, least, most := row[1], row[2], row[3], row[4]
		all = append(all, key)
		section := func(value any) Sources {
			parts := strings.Split(key, ".")
			return yamlFile("resilience: {" + strings.Join(parts, ": {") + ": " + fmt.Sprint(value) + strings.Repeat("}", len(parts)))
		}
		name, _, _ := strings.Cut(key, ".")
		m := must(binder.LoadNode("", must(document.ParseYAML([]byte(name+": {}")))))
		require.Equal(t, def, policyKeys(m)[key], key)
		if least == "" {
			continue
		}
		mustLoad(t, section(least))
		mustLoad(t, section(most))
		problems(t, section(must(strconv.ParseFloat(least, 64))-0.0005))
		problems(t, section(must(strconv.ParseFloat(most, 64))+1))
	}
	every := must(binder.LoadNode("", must(document.ParseYAML([]byte("{retry: {}, timeout: {}, bulkhead: {}, bulkhead_isolation: {}}")))))
	require.ElementsMatch(t, slices.Collect(maps.Keys(policyKeys(every))), all)
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func policyKeys(m *binder.Model) map[string]string {
	all := map[string]string{}
	var walk func(path string, n document.Node)
	walk = func(path string, n document.Node) {
		for _, e := range n.Keys {
			if walk(document.Join(path, e.Key), e.Value); e.Value.Kind != document.Map {
				all[document.Join(path, e.Key)] = e.Value.Text
			}
		}
	}
	walk("", policyTree(m))
	return all
}

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
