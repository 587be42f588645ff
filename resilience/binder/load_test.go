package binder_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/document"
	"github.com/treadlight/crawl/resilience"
	"github.com/treadlight/crawl/resilience/binder"
)

// whole has every key, each at something else than its default.
const whole = `{
  "Resilience": {
    "Retry": {
      "MaxRetries": 4,
      "RetryForever": true,
      "Backoff": { "Type": "linear", "BaseMs": 250, "MaxDelayMs": 20000, "UseJitter": false }
    },
    "Timeout": { "Seconds": 2.5 },
    "CircuitBreaker": { "CircuitName": "api", "FailureThreshold": 7, "SuccessThreshold": 2, "BreakSeconds": 15 },
    "Bulkhead": { "MaxConcurrency": 20, "MaxQueueDepth": 0, "QueueTimeoutSeconds": 0 },
    "BulkheadIsolation": { "MaxConcurrentRequests": 3, "MaxQueueSize": 9, "QueueTimeoutSeconds": 1 },
    "Hedging": { "HedgeAfterMs": 300, "MaxHedgedAttempts": 2 },
    "Fallback": { "StatusCodes": [503, 500] }
  }
}`

func wholeModel() *binder.Model {
	return &binder.Model{
		Retry: &binder.Retry{MaxRetries: 4, Forever: true, Backoff: binder.Backoff{
			Type: binder.BackoffLinear, Base: 250 * time.Millisecond, MaxDelay: 20 * time.Second,
		}},
		Timeout:           &binder.Timeout{Limit: 2500 * time.Millisecond},
		CircuitBreaker:    &binder.CircuitBreaker{Name: "api", FailureThreshold: 7, SuccessThreshold: 2, Break: 15 * time.Second},
		Bulkhead:          &binder.Bulkhead{MaxConcurrency: 20},
		BulkheadIsolation: &binder.BulkheadIsolation{MaxConcurrency: 3, MaxQueue: 9, QueueTimeout: time.Second},
		Hedging:           &binder.Hedging{After: 300 * time.Millisecond, MaxAttempts: 2},
		Fallback:          &binder.Fallback{StatusCodes: []int{503, 500}},
	}
}

func load(t testing.TB, doc string) *binder.Model {
	t.Helper()
	return must(binder.Load([]byte(doc)))
}

func TestLoadEverySection(t *testing.T) {
	require.Equal(t, wholeModel(), load(t, whole))
	bare := strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(whole), "{\n  \"Resilience\":"), "\n}")
	require.Equal(t, wholeModel(), load(t, bare), "without the root")
}

func TestAbsentSectionIsNil(t *testing.T) {
	for _, doc := range []string{`{}`, `{"Resilience": {}}`, `{"resilience": null}`, "\ufeff{}"} {
		require.Equal(t, &binder.Model{}, load(t, doc), doc)
	}
	require.Equal(t, &binder.Model{Timeout: &binder.Timeout{Limit: time.Second}}, load(t, `{"Timeout": {"Seconds": 1}}`))
}

func TestEmptySectionHasDefaults(t *testing.T) {
	require.Equal(t, &binder.Model{
		Retry: &binder.Retry{MaxRetries: 3, Backoff: binder.Backoff{
			Type: binder.BackoffExponential, Base: 200 * time.Millisecond, MaxDelay: 30 * time.Second, Jitter: true,
		}},
		Timeout:           &binder.Timeout{Limit: 30 * time.Second},
		CircuitBreaker:    &binder.CircuitBreaker{Name: "default", FailureThreshold: 5, SuccessThreshold: 1, Break: 30 * time.Second},
		Bulkhead:          &binder.Bulkhead{MaxConcurrency: 10, MaxQueue: 100, QueueTimeout: 10 * time.Second},
		BulkheadIsolation: &binder.BulkheadIsolation{MaxConcurrency: 10, MaxQueue: 100, QueueTimeout: 10 * time.Second},
		Hedging:           &binder.Hedging{After: 200 * time.Millisecond, MaxAttempts: 1},
		Fallback:          &binder.Fallback{StatusCodes: []int{500, 502, 503, 504}},
	}, load(t, `{"Retry":{},"Timeout":{},"CircuitBreaker":{},"Bulkhead":{},"BulkheadIsolation":{},"Hedging":{},"Fallback":{}}`))
}

func TestBackoffTypes(t *testing.T) {
	for written, want := range map[string]binder.BackoffType{
		"none": binder.BackoffNone, "CONSTANT": binder.BackoffConstant, "linear": binder.BackoffLinear,
		"Exponential": binder.BackoffExponential, "decorrelatedJitter": binder.BackoffDecorrelated,
		"decorrelated_jitter": binder.BackoffDecorrelated, "Decorrelated-Jitter": binder.BackoffDecorrelated,
	} {
		m := load(t, fmt.Sprintf(`{"Retry": {"Backoff": {"Type": %q}}}`, written))
		require.Equal(t, want, m.Retry.Backoff.Type, written)
	}
}

func TestUnwrittenBoundOfPauseFollows(t *testing.T) {
	b := load(t, `{"Retry": {"Backoff": {"BaseMs": 45000}}}`).Retry.Backoff
	require.Equal(t, 45*time.Second, b.MaxDelay)
	b = load(t, `{"Retry": {"Backoff": {"MaxDelayMs": 50}}}`).Retry.Backoff
	require.Equal(t, 50*time.Millisecond, b.Base)
}

func TestProblems(t *testing.T) {
	for _, tc := range []struct{ name, doc, want string }{
		{"range", `{"Resilience": {"Retry": {"Backoff": {"BaseMs": 0}}}}`, "Resilience.Retry.Backoff.BaseMs: 0 is below 1; give a number of milliseconds from 1 to 3600000 [line 1]"},
		{"above", "{\"Timeout\":\n{\"Seconds\": 1e400}}", "Timeout.Seconds: 1e400 is out of range; give a number of seconds from 0.001 to 86400 [line 2]"},
		{"negative", `{"Retry": {"MaxRetries": -1}}`, "Retry.MaxRetries: -1 is below 0; give a whole number from 0 to 100 [line 1]"},
		{"fraction", `{"Retry": {"MaxRetries": 1.5}}`, "Retry.MaxRetries: 1.5 is not a whole number; give a whole number from 0 to 100 [line 1]"},
		{"text for number", `{"Retry": {"MaxRetries": "3"}}`, "Retry.MaxRetries: 3 is a text; give a whole number from 0 to 100 [line 1]"},
		{"number for switch", `{"Retry": {"RetryForever": 1}}`, "Retry.RetryForever: 1 is a number; give true or false [line 1]"},
		{"switch for text", `{"CircuitBreaker": {"CircuitName": true}}`, `CircuitBreaker.CircuitName: "true" is true or false; give a name of 1 to 100 printable bytes [line 1]`},
		{"group for number", `{"Hedging": {"HedgeAfterMs": {}}}`, "Hedging.HedgeAfterMs: is a group of settings; give a number of milliseconds from 1 to 3600000 [line 1]"},
		{"nothing for number", `{"Hedging": {"HedgeAfterMs": null}}`, "Hedging.HedgeAfterMs: has no value; give a number of milliseconds from 1 to 3600000, or remove the line [line 1]"},
		{"nothing for section", `{"Hedging": null}`, "Hedging: is nothing instead of a group of settings; write {} for the defaults, or remove the line [line 1]"},
		{"list for section", `{"Hedging": []}`, "Hedging: is a list instead of a group of settings [line 1]"},
		{"list as document", `[]`, "the document is a list instead of a group of settings [line 1]"},
		{"null as document", `null`, "the document is nothing instead of a group of settings; write {} for the defaults, or remove the line [line 1]"},
		{"unknown type", `{"Retry": {"Backoff": {"Type": "fibonacci"}}}`, `Retry.Backoff.Type: "fibonacci" is not a type; give one of none, constant, linear, exponential, decorrelatedJitter [line 1]`},
		{"empty name", `{"CircuitBreaker": {"CircuitName": ""}}`, `CircuitBreaker.CircuitName: "" is no name; give a name of 1 to 100 printable bytes [line 1]`},
		{"status", `{"Fallback": {"StatusCodes": [500, 99]}}`, "Fallback.StatusCodes[1]: 99 is below 100; give a whole number from 100 to 599 [line 1]"},
		{"status twice", `{"Fallback": {"StatusCodes": [500, 502, 500]}}`, "Fallback.StatusCodes[2]: 500 is in the list already; remove one of the two [line 1]"},
		{"no list", `{"Fallback": {"StatusCodes": 500}}`, "Fallback.StatusCodes: 500 is a number; give a list of statuses from 100 to 599 [line 1]"},
		{"slip", `{"Retry": {"MaxRetry": 3}}`, "Retry.MaxRetry: is not a setting; did you mean MaxRetries? [line 1]"},
		{"camel case", `{"Retry": {"maxRetries": 3}}`, "Retry.maxRetries: is not a setting; did you mean MaxRetries? [line 1]"},
		{"slip in YAML's spelling", `{"bulk_head": {}}`, "bulk_head: is not a setting; did you mean bulkhead? [line 1]"},
		{"far from any", `{"Timeout": {"Temperature": 3}}`, "Timeout.Temperature: is not a setting; there are Seconds [line 1]"},
		{"no name", "{\"Timeout\": {\"\\n\": 3}}", `Timeout."\n": is not a setting; there are Seconds [line 1]`},
		{"twice", "{\"Timeout\": {},\n\"Timeout\": {}}", "Timeout: is set already as Timeout on line 1; remove one of the two [line 2]"},
		{"in two spellings", `{"Retry": {"MaxRetries": 1, "max_retries": 2}}`, "Retry.max_retries: is set already as MaxRetries on line 1; remove one of the two [line 1]"},
		{"beside the root", `{"Resilience": {}, "Timeout": {}}`, "Resilience: stands beside Timeout; put all sections into it, and once [line 1]"},
		{"two roots", `{"Resilience": {}, "resilience": {}}`, "Resilience: stands beside resilience; put all sections into it, and once [line 1]"},
		{"contradiction", `{"Retry": {"Backoff": {"BaseMs": 201, "MaxDelayMs": 100.5}}}`, "Retry.Backoff: its longest pause, 100.5ms, is below the first, 201ms; raise the one or lower the other [line 1]"},
		{"trailing", `{} {}`, "the document goes on after its end; remove what follows [line 1]"},
		{"empty", " \n", "the document is empty; write {} for no policy at all"},
		{"cut off", "{\"Timeout\":\n{", "the document is not JSON: it ends in the middle of a value; close what is open [line 2]"},
		{"no JSON", "{\n'a': 1}", "the document is not JSON: invalid character '\\'' [line 2]"},
		{"no UTF-8", "{\"\xff\": 1}", "the document is not valid UTF-8; save it in that encoding [line 1]"},
		{"deep", strings.Repeat(`{"a":`, 40) + "1" + strings.Repeat("}", 40), "the document is nested more than 32 levels deep [line 1]"},
		{"large", strings.Repeat(" ", binder.DocumentMax+1), "the document is larger than 64 KiB; one with every key is a fraction of that, was another file meant?"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m, err := binder.Load([]byte(tc.doc))
			require.Nil(t, m)
			require.EqualError(t, err, tc.want)
		})
	}
}

func TestSeveralProblemsAtOnce(t *testing.T) {
	_, err := binder.Load([]byte("{\"Retry\": {\"MaxRetries\": -1,\n\"Backoff\": {\"BaseMs\": -1, \"MaxDelayMs\": 5}},\n\"Timeot\": {}}"))
	require.EqualError(t, err, strings.Join([]string{
		"Retry.MaxRetries: -1 is below 0; give a whole number from 0 to 100 [line 1]",
		"Retry.Backoff.BaseMs: -1 is below 1; give a number of milliseconds from 1 to 3600000 [line 2]",
		"Timeot: is not a setting; did you mean Timeout? [line 3]",
	}, "\n"))
	p, ok := errors.AsType[binder.Problem](err)
	require.True(t, ok)
	require.Equal(t, "Retry.MaxRetries", p.Path)

	_, err = binder.Load([]byte(`{` + strings.Repeat(`"x": 1,`, 80) + `"y": 1}`))
	ps, ok := errors.AsType[binder.Problems](err)
	require.True(t, ok)
	require.Len(t, ps, 51)
	require.Equal(t, "and 31 more", ps[50].Error())
}

// loadYAML is LoadNode of a YAML text.
func loadYAML(t testing.TB, path, text string) (*binder.Model, error) {
	t.Helper()
	n := must(document.ParseYAML([]byte(text)))
	return binder.LoadNode(path, n)
}

func TestLoadYAML(t *testing.T) {
	m := must(loadYAML(t, "resilience", `
retry:
  max_retries: 4
  retry_forever: yes
  backoff: {type: linear, base_ms: 250, max_delay_ms: 20000, use_jitter: off}
timeout: {seconds: 2.5}
circuit_breaker: {circuit_name: "api", failure_threshold: 7, success_threshold: 2, break_seconds: 15}
Bulkhead: {MaxConcurrency: 20, MaxQueueDepth: 0, QueueTimeoutSeconds: 0}
bulkhead_isolation: {max_concurrent_requests: 3, max_queue_size: 9, queue_timeout_seconds: 1}
hedging: {hedge_after_ms: 300, max_hedged_attempts: 2}
fallback: {status_codes: [503, 500]}
`))
	require.Equal(t, wholeModel(), m)

	m = must(loadYAML(t, "resilience", "# all lines are commented out\n"))
	require.Equal(t, &binder.Model{}, m)
}

func TestLoadYAMLProblems(t *testing.T) {
	for _, tc := range []struct{ name, doc, want string }{
		{"path and line", "retry:\n  backoff:\n    base_ms: 0", "resilience.retry.backoff.base_ms: 0 is below 1; give a number of milliseconds from 1 to 3600000 [line 3]"},
		{"not decimal", "retry: {max_retries: 0x10}", `resilience.retry.max_retries: "0x10" is not a whole number; give a whole number from 0 to 100 [line 1]`},
		{"nothing", "timeout:", "resilience.timeout: is nothing instead of a group of settings; write {} for the defaults, or remove the line [line 1]"},
		{"not a number", "timeout: {seconds: .nan}", `resilience.timeout.seconds: ".nan" is not a number; give a number of seconds from 0.001 to 86400 [line 1]`},
		{"slip", "retry: {max_retry: 1}", "resilience.retry.max_retry: is not a setting; did you mean max_retries? [line 1]"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := loadYAML(t, "resilience", tc.doc)
			require.EqualError(t, err, tc.want)
		})
	}
}

// A part of the crawl's configuration means the same with quotes and without.
func TestLoadNodeIgnoresQuotes(t *testing.T) {
	for name, doc := range map[string]string{"a.yaml": "timeout: {seconds: '3'}", "a.json": `{"timeout": {"seconds": "3"}}`} {
		n := must(document.Parse(name, []byte(doc)))
		require.Equal(t, 3*time.Second, must(binder.LoadNode("resilience", n)).Timeout.Limit)
	}
}

func TestWriteReadsBack(t *testing.T) {
	text := must(json.Marshal(wholeModel()))
	require.JSONEq(t, whole, string(text))
	require.Equal(t, wholeModel(), load(t, string(text)))
	text = must(json.Marshal(&binder.Model{}))
	require.Equal(t, `{"Resilience":{}}`, string(text))
}

// FuzzLoad holds the law of the loader: what loads, written out and loaded again, is equal, as JSON and as the YAML
// that JSON is too; and what does not load says why without repeating the document.
func FuzzLoad(f *testing.F) {
	f.Add([]byte(whole))
	f.Add([]byte(`{"retry": {"backoff": {"base_ms": 0.001e3, "type": "none"}}, "fallback": {"status_codes": []}}`))
	f.Add([]byte(`{"CircuitBreaker": {"CircuitName": "<é\u2028>"}, "Timeout": {"Seconds": 0.0015}}`))
	f.Add([]byte(`{"Retry": null, "x": [1, {"y": 1e999}], "Retry": {}}`))
	f.Fuzz(func(t *testing.T, doc []byte) {
		m, err := binder.Load(doc)
		if err != nil {
			require.Nil(t, m)
			require.NotEmpty(t, err.Error())
			require.LessOrEqual(t, len(err.Error()), 60*1024)
			return
		}
		text := must(json.Marshal(m))
		again, err := binder.Load(text)
		require.NoError(t, err, "%s", text)
		require.Equal(t, m, again)
		n, err := document.ParseYAML(text)
		if err != nil {
			return // some letters that JSON takes as they are, YAML wants escaped
		}
		again, err = binder.LoadNode("", n)
		require.NoError(t, err, "%s", text)
		require.Equal(t, m, again)
	})
}

// FuzzLoadYAML holds the same law for what comes as YAML.
func FuzzLoadYAML(f *testing.F) {
	f.Add("retry: {max_retries: 3, backoff: {type: decorrelated-jitter, use_jitter: no}}\nfallback: {status_codes: [500]}")
	f.Add("circuit_breaker:\n  circuit_name: ~\n  break_seconds: 1e1")
	f.Add("a: &a [*a]\n? [x]\n: !!int y")
	f.Fuzz(func(t *testing.T, doc string) {
		n, err := document.ParseYAML([]byte(doc))
		if len(doc) > 1<<12 || err != nil {
			return
		}
		m, err := binder.LoadNode("resilience", n)
		if err != nil {
			require.Nil(t, m)
			require.NotEmpty(t, err.Error())
			return
		}
		require.Equal(t, m, load(t, string(must(json.Marshal(m)))))
	})
}

// settings is a file as applications have it: other parts beside ours.
const settings = `{
	"Logging": {"LogLevel": {"Default": "Information"}},
	"AllowedHosts": "*",
	"Resilience": {"Timeout": {"Seconds": 2}},
	"Clients": {
		"search": {"Timeout": {"Seconds": 3}},
		"payments": {"Resilience": {"Timeout": {"Seconds": 4}}, "BaseAddress": "https://pay.test/"}
	}
}`

func timeout(seconds int) *binder.Model {
	return &binder.Model{Timeout: &binder.Timeout{Limit: time.Duration(seconds) * time.Second}}
}

func TestLoadIgnoresOtherRoots(t *testing.T) {
	require.Equal(t, timeout(2), load(t, settings))
	_, err := binder.Load([]byte(`{"Logging": {}, "AllowedHosts": "*"}`))
	require.ErrorContains(t, err, "Logging: is not a setting", "without the group all keys are ours")
}

func TestLoadSection(t *testing.T) {
	for section, want := range map[string]*binder.Model{
		"Resilience": timeout(2), "Clients:search": timeout(3), "Clients:payments": timeout(4), "Clients:payments:Resilience": timeout(4),
	} {
		m, err := binder.LoadSection([]byte(settings), section)
		require.NoError(t, err, section)
		require.Equal(t, want, m, section)
	}
	for section, want := range map[string]string{
		"Clients:mail": `Clients: there is no group "mail" here; there are ["search" "payments"] [line 5]`,
		"":             `there is no group "" here`,
		"Logging":      "Logging.LogLevel: is not a setting",
		"AllowedHosts": "AllowedHosts: is a text instead of a group of settings",
	} {
		_, err := binder.LoadSection([]byte(settings), section)
		require.ErrorContains(t, err, want, section)
	}
}

func TestRegistryOfADocument(t *testing.T) {
	models := must(binder.LoadNamed([]byte(settings), "Clients"))
	require.Equal(t, map[string]*binder.Model{"search": timeout(3), "payments": timeout(4)}, models)

	var asked []string
	r := must(binder.BindAll(models, func(name string) binder.Options[string] {
		asked = append(asked, name)
		return binder.Options[string]{Deps: binder.Deps{Name: name}}
	}))
	require.Equal(t, []string{"payments", "search"}, r.Names())
	require.Equal(t, r.Names(), asked)
	p := must(resilience.Lookup[string](r, "search"))
	require.Equal(t, "page", must(p.Execute(t.Context(), func(context.Context) (string, error) { return "page", nil })))
	require.NoError(t, r.Close())
	_, err := p.Execute(t.Context(), func(context.Context) (string, error) { return "page", nil })
	require.ErrorIs(t, err, resilience.ErrClosed, "the registry closes what it holds")
}

func TestNamedDocumentsWithProblems(t *testing.T) {
	for doc, want := range map[string]string{
		`{"P": {"a": {"Timout": {}}, "b": {"Retry": 1}}}`: "P.a.Timout: is not a setting; did you mean Timeout? [line 1]\nP.b.Retry: is a number",
		`{"P": {"a": {}, "a": {}}}`:                       "P.a: is there already",
		`{"P": []}`:                                       "a list instead of a group of documents by name",
		`{}`:                                              `there is no group "P" here`,
		`{`:                                               "",
	} {
		_, err := binder.LoadNamed([]byte(doc), "P")
		require.ErrorContains(t, err, want, doc)
	}
	_, err := binder.BindAll[string](map[string]*binder.Model{"a": timeout(1), "b": load(t, `{"Fallback": {}}`)}, nil)
	require.ErrorContains(t, err, "b: Fallback: a document cannot say")
}

// TestBindAllLeavesNothingOpen has policies without a name, which no registry takes, before others.
func TestBindAllLeavesNothingOpen(t *testing.T) {
	models := map[string]*binder.Model{"": load(t, `{"Retry": {}}`), "a": load(t, `{"Retry": {}}`)}
	var made []*resilience.Retry[string]
	_, err := binder.BindAll(models, func(string) binder.Options[string] {
		return binder.SeeRetryForTest(binder.Options[string]{}, func(r *resilience.Retry[string]) { made = append(made, r) })
	})
	require.ErrorContains(t, err, "want a name")
	require.NotEmpty(t, made)
	for _, r := range made {
		_, err := r.Execute(t.Context(), func(context.Context) (string, error) { return "", nil })
		require.ErrorIs(t, err, resilience.ErrClosed)
	}
}
