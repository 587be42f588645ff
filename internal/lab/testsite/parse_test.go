package testsite

import (
	"encoding/json"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/treadlight/crawl/internal/lab/docpage"
)

const everything = `
seed: 7
base: 127.0.9.1
port: 8080
grace: 20ms
hosts:
  - name: all
    count: 2
    pages: 51
    fanout: 5
    cross_links: 3
    host_links: 1
    size: {min: 100, max: 200}
    media: 1
    redirects: 2
    missing: 3
    private: 4
    listed: 5
    latency: {typical: 20ms, dist: lognormal, spread: 0.4, body: 1s, fast_root: true}
    one_address: true
    limit: {rate: 5, burst: 2, requests: 60, window: 1m, concurrent: 9}
    limits:
      - {kind: leaky-bucket, rate: 5, burst: 2, delay: true}
      - {kind: fixed-window, requests: 60, window: 1m}
      - {kind: concurrency, concurrent: 9}
    load: {rate: 20, max_wait: 3s, workers: 4}
    day: {length: 1h, table: [{at: 10m, speed: 0.5}]}
    ban: {after: 10, within: 1m, for: 5m, mode: drop}
    refusal: {status: 503, retry_after: http-date, wait: 2s, headers: ietf, body: later}
    script: [200, 200, 429, 503*3, 500*]
    flaky: {probability: 0.25, kinds: [500, reset]}
    outages:
      - {after: 10s, for: 5s, mode: close-listener}
      - {after: 15s, for: 1m30s, mode: status, status: 502}
    robots: {allow: true, disallow: [/private/], crawl_delay: 1.5s, text: "x", status: 503, times: 2, latency: 1s}
`

func TestParseEverything(t *testing.T) {
	got, err := Parse([]byte(everything))
	require.NoError(t, err)
	h := got.Hosts[0]
	require.Equal(t, []Step{{Status: 200}, {Status: 200}, {Status: 429}, {Status: 503, Times: 3}, {Status: 500, Times: -1}}, h.Script)
	require.Equal(t, Outage{After: 15 * time.Second, For: 90 * time.Second, Mode: modeStatus, Status: 502}, h.Outages[1])
	require.Equal(t, Limiter{Kind: kindFixed, Requests: 60, Window: time.Minute}, h.Limits[1])
	requireAllSet(t, reflect.ValueOf(h), "Host", "Day.Low", "Ban.Status")
}

// requireAllSet keeps the file above complete: every field must be set in it, except those that another one excludes.
func requireAllSet(t *testing.T, v reflect.Value, path string, but ...string) {
	for f, fv := range v.Fields() {
		if slices.Contains(but, v.Type().Name()+"."+f.Name) {
			continue
		}
		require.False(t, fv.IsZero(), "%s.%s is not in the example", path, f.Name)
		if fv.Kind() == reflect.Struct {
			requireAllSet(t, fv, path+"."+f.Name, but...)
		}
	}
}

// The documentation of the file has every field of it, and no other.
func TestPageHasEveryField(t *testing.T) {
	_, file, _ := strings.Cut(docpage.Read(t, "docs/how-to/test-site.md"), "```yml\n")
	file, _, _ = strings.Cut(file, "```")
	d := yaml.NewDecoder(strings.NewReader(file))
	d.KnownFields(true)
	require.NoError(t, d.Decode(new(Config)))
	for _, typ := range []any{Config{}, Host{}, Size{}, Latency{}, Limit{}, Limiter{}, Load{}, Day{}, Hour{}, Ban{}, Refusal{}, Flaky{}, Outage{}, Robots{}} {
		for f := range reflect.TypeOf(typ).Fields() {
			require.Contains(t, file, tag(f)+":", "%T", typ)
		}
	}
}

func TestParseErrorsNameTheLine(t *testing.T) {
	for file, want := range map[string]string{
		"":                                      "the site file is empty; write at least hosts: [{pages: 20}]",
		"seed: 1":                               "hosts: there are none; list at least one",
		"hello":                                 "line 1: cannot unmarshal",
		"hosts: [{}]\n---\nhosts: [{}]":         "a second document; keep one",
		"hosts: [":                              "yaml: ",
		"hosts:\n- pages: 3\n  latncy: {}":      "line 3: field latncy not found",
		"hosts: [{}]\nclock: 3":                 "line 2: field clock not found",
		"hosts: [{pages: 1, pages: 2}]":         `line 1: mapping key "pages" already defined at line 1`,
		"hosts: [{latency: {typical: 20}}]":     "line 1: cannot unmarshal !!int `20` into time.Duration",
		"hosts: [{pages: many}]":                "line 1: cannot unmarshal !!str `many` into int",
		"hosts: [{limit: 5}]":                   "line 1: cannot unmarshal !!int `5`",
		"hosts: [{script: [200, 503*x]}]":       `"503*x" is no step of a script; use one such as 503, 503*3 or 503*`,
		"hosts: [{script: [503*0]}]":            `"503*0" is no step of a script`,
		"{\n\t\"hosts\": [{\"pages\": \"3\"}]}": "line 2: cannot unmarshal !!str `3` into int",
		"hosts: [{}, {pages: -1}]":              "hosts[1].pages: -1 is out of range; use 0 to 10000000",
	} {
		_, err := Parse([]byte(file))
		require.ErrorContains(t, err, want)
	}
}

// An error in a site has its path and what to write instead. Each line of testdata/wrong.txt has a part of a file and
// its error.
func TestErrorsNamePathAndFix(t *testing.T) {
	text, err := os.ReadFile("testdata/wrong.txt")
	require.NoError(t, err)
	cases := 0
	for line := range strings.Lines(string(text)) {
		if file, want, ok := strings.Cut(strings.TrimSpace(line), " => "); ok {
			_, err := Parse([]byte(file))
			require.ErrorContains(t, err, want, file)
			cases++
		}
	}
	require.Equal(t, 55, cases)
	_, err = New(Config{Base: "127.255.255.254", Hosts: []Host{{Count: 3, OneAddress: true}}})
	require.NoError(t, err, "one address is enough for them")
	_, err = New(one(Host{Refusal: Refusal{Body: strings.Repeat("x", 65537)}}))
	require.ErrorContains(t, err, "hosts[0].refusal.body (bytes): 65537 is out of range")
}

func TestStepText(t *testing.T) {
	for text, want := range map[string]Step{
		"503": {Status: 503}, "503*3": {Status: 503, Times: 3}, "503*": {Status: 503, Times: -1},
	} {
		var got Step
		require.NoError(t, got.UnmarshalText([]byte(text)))
		require.Equal(t, want, got)
		back, err := got.MarshalText()
		require.NoError(t, err)
		require.Equal(t, text, string(back))
	}
}

// FuzzParse: every accepted file makes a site, and is the same after it is written and read again.
func FuzzParse(f *testing.F) {
	f.Add([]byte(everything))
	f.Add([]byte("hosts: [{}]"))
	f.Add([]byte("hosts: [&a {name: x, script: [503*2]}, *a]"))
	f.Add([]byte("hosts: [{robots: {text: \"a\\r\\nb\\u2028\"}}]"))
	f.Add([]byte("{\"seed\": 3,\n\t\"hosts\": [{\"script\": [200, \"503*3\"], \"limits\": [{\"kind\": \"token-bucket\", \"rate\": 1e1}]}]}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		cfg, err := Parse(data)
		if err != nil {
			return
		}
		text, err := yaml.Marshal(cfg)
		require.NoError(t, err)
		back, err := Parse(text)
		require.NoError(t, err, "written as:\n%s", text)
		again, err := yaml.Marshal(back)
		require.NoError(t, err)
		require.Equal(t, string(text), string(again))
	})
}

func asJSON(t *testing.T, text string) []byte {
	t.Helper()
	var v any
	require.NoError(t, yaml.Unmarshal([]byte(text), &v))
	data, err := json.MarshalIndent(v, "", "\t") // with tabs, which YAML does not allow
	require.NoError(t, err)
	return data
}

func TestJSONIsTheSame(t *testing.T) {
	want, err := Parse([]byte(everything))
	require.NoError(t, err)
	got, err := Parse(asJSON(t, everything))
	require.NoError(t, err)
	require.Equal(t, want, got)
}

func TestEveryProblemAtOnce(t *testing.T) {
	for _, c := range []struct {
		file  string
		wants []string
	}{
		{"seed: some\nhosts: [{pagse: 10, refusal: {stauts: 503}}]", []string{"into uint64", "pagse not found", "stauts not found"}},
		{"grace: 1h\nhosts: [{fanout: -1}, {limits: [{kind: leaky, rate: 5}, {kind: token-bucket, requests: 5}]}]", []string{
			"hosts[0].fanout: -1 is out of range",
			"hosts[1].limits[0].kind: leaky is unknown; use one of [leaky-bucket token-bucket",
			"hosts[1].limits[1].rate: a token-bucket needs one; set it",
			"hosts[1].limits[1].requests: a token-bucket has none; remove it",
			"grace: 1h0m0s is out of range",
		}},
	} {
		_, err := Parse([]byte(c.file))
		for _, want := range c.wants {
			require.ErrorContains(t, err, want)
		}
	}
}
