package testsite

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// asJSON writes a YAML file as the JSON that says the same.
func asJSON(t *testing.T, text string) []byte {
	t.Helper()
	var v any
	require.NoError(t, yaml.Unmarshal([]byte(text), &v))
	data, err := json.MarshalIndent(v, "", "\t") // tabs, with which it is no YAML
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

func TestJSONErrors(t *testing.T) {
	for _, tc := range []struct{ file, want string }{
		{"{\n\t\"hosts\": [{\"pages\": 3},\n\t{\"latncy\": {}}]\n}", "hosts[1].latncy: line 3: there is no such field (did you mean latency?)"},
		{`{"hosts": [{"pages": "3"}]}`, `hosts[0].pages: line 1: "3" will not do; write a whole number`},
		{`{"hosts": [{"pages": 1.5}]}`, `hosts[0].pages: line 1: "1.5" will not do; write a whole number`},
		{`{"hosts": [{"pages": 1, "pages": 2}]}`, "hosts[0].pages: line 1: it is set twice"},
		{`{"hosts": [{"robots": {"allow": "maybe"}}]}`, `hosts[0].robots.allow: line 1: "maybe" will not do; write true or false`},
		{`{"hosts": null}`, "hosts: there are none"},
	} {
		_, err := Parse([]byte(tc.file))
		require.ErrorContains(t, err, tc.want, tc.file)
	}
}

// TestEveryProblemAtOnce: what is wrong is told in one go, and what is only a consequence of
// it is not.
func TestEveryProblemAtOnce(t *testing.T) {
	_, err := Parse([]byte(`
seed: some
grace: 1h
hosts:
  - pagse: 10
    fanout: -1
    limit: {requests: many, window: 1m}
  - limits:
      - {kind: leaky, rate: 5}
      - {kind: token-bucket, requests: 5}
    refusal: {retry_after: tomorrow, stauts: 503}
`))
	require.Error(t, err)
	lines := strings.Split(err.Error(), "\n")
	for i, want := range []string{
		`seed: line 2: "some" will not do; write a whole number`,
		"hosts[0].pagse: line 5: there is no such field (did you mean pages?)",
		`hosts[0].limit.requests: line 7: "many" will not do`,
		"hosts[1].refusal.stauts: line 11: there is no such field (did you mean status?)",
		"hosts[0].fanout: -1 is out of range",
		"hosts[1].limits[0].kind: leaky is unknown; use one of [leaky-bucket token-bucket",
		"hosts[1].limits[1].rate: a token-bucket needs one; set it",
		"hosts[1].limits[1].requests: a token-bucket has none; remove it",
		"hosts[1].refusal.retry_after: tomorrow is unknown; use one of",
		"grace: 1h0m0s is out of range",
	} {
		require.Greater(t, len(lines), i, err)
		require.True(t, strings.HasPrefix(lines[i], want), "line %d is %q, want %q", i, lines[i], want)
	}
	require.Len(t, lines, 10, "that requests and window go together is a consequence")
}

func TestLimitErrorsNamePathAndFix(t *testing.T) {
	bucket := []Limiter{{Kind: kindToken, Rate: 1}}
	for want, h := range map[string]Host{
		"hosts[0].limits[0].kind:  is unknown; use one of":             {Limits: []Limiter{{}}},
		"hosts[0].limits[0].rate: 1e-05 is out of range; use 0.001":    {Limits: []Limiter{{Kind: kindLeaky, Rate: 1e-5}}},
		"hosts[0].limits[0].window: 10ns is out of range; use 1ms":     {Limits: []Limiter{{Kind: kindLog, Requests: 1, Window: 10}}},
		"hosts[0].limits[0].window: a sliding-window-log needs one":    {Limits: []Limiter{{Kind: kindLog, Requests: 1}}},
		"hosts[0].limits[0].delay: a token-bucket has none; remove it": {Limits: []Limiter{{Kind: kindToken, Rate: 1, Delay: true}}},
		"hosts[0].limits[0].concurrent: a concurrency needs one":       {Limits: []Limiter{{Kind: kindSlots}}},
		"hosts[0].limits (listed): 17 is out of range; use 0 to 16":    {Limits: make([]Limiter, 17)},
		"hosts[0].one_address: it has no meaning without count":        {OneAddress: true},
		"hosts[0].ban.after: it has no meaning without for":            {Ban: Ban{After: 1}, Limits: bucket},
		"hosts[0].ban.mode: it has no meaning without after":           {Ban: Ban{Mode: modeDrop}},
		"hosts[0].ban.mode: hang is unknown; use one of [status drop]": {Ban: Ban{After: 1, For: 1, Mode: modeHang}, Limits: bucket},
		"hosts[0].day.length: 1ms is out of range; use 1s to":          {Day: Day{Length: ms, Low: 0.5}, Limits: bucket},
		"hosts[0].day.low: 0.001 is out of range; use 0.01 to 1":       {Day: Day{Low: 0.001}, Limits: bucket},
		"hosts[0].day: low and table both say how the day goes":        {Day: Day{Low: 0.5, Table: []Hour{{Speed: 1}}}, Limits: bucket},
		"hosts[0].day.table[0].speed: 0 is out of range; use 0.01":     {Day: Day{Table: []Hour{{}}}, Limits: bucket},
		"hosts[0].day.table[1].at: 1s is not within a day of 24h0m0s":  {Day: Day{Table: []Hour{{At: time.Second, Speed: 1}, {At: time.Second, Speed: 1}}}, Limits: bucket},
		"hosts[0].day.table[0].at: 24h0m0s is not within a day":        {Day: Day{Table: []Hour{{At: 24 * time.Hour, Speed: 1}}}, Limits: bucket},
		"hosts[0].load.rate: 1e-06 is out of range; use 0.001":         {Load: Load{Rate: 1e-6}},
		"hosts[0].load.max_wait: it has no meaning without rate":       {Load: Load{MaxWait: 1}},
		"hosts[0].load.workers: -1 is out of range":                    {Load: Load{Workers: -1}},
		"hosts[0].refusal.headers: both is unknown; use one of [none":  {Refusal: Refusal{Headers: "both"}, Limits: bucket},
		"hosts[0].refusal.body (bytes): 65537 is out of range":         {Refusal: Refusal{Body: strings.Repeat("x", 65537)}},
		"hosts: 1001 on one address need as many ports from 0 on":      {Count: 1001, OneAddress: true},
	} {
		_, err := New(one(h))
		require.ErrorContains(t, err, want)
	}
	_, err := New(Config{Port: 65534, Hosts: []Host{{Count: 3, OneAddress: true}}})
	require.ErrorContains(t, err, "hosts: 3 on one address need as many ports from 65534 on")
	_, err = New(Config{Base: "127.255.255.254", Hosts: []Host{{Count: 3, OneAddress: true}}})
	require.NoError(t, err, "one address is enough for them")
}

func TestMeant(t *testing.T) {
	names := []string{"rate", "burst", "window", "concurrent"}
	for word, want := range map[string]string{
		"rat": " (did you mean rate?)", "windows": " (did you mean window?)", "concurent": " (did you mean concurrent?)",
		"rps": "", "": "", strings.Repeat("x", 1<<20): "",
	} {
		require.Equal(t, want, meant(word, names), "%.20s", word)
	}
}

// FuzzParseJSON: what is accepted as JSON means what encoding/json reads, and survives being
// written as YAML.
func FuzzParseJSON(f *testing.F) {
	f.Add([]byte(`{"hosts": [{}]}`))
	f.Add([]byte("{\"seed\": 3,\n\t\"hosts\": [{\"script\": [200, \"503*3\"], \"limits\": [{\"kind\": \"token-bucket\", \"rate\": 1e1}]}]}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if !json.Valid(data) {
			return
		}
		cfg, err := Parse(data)
		if err != nil {
			return
		}
		text, err := yaml.Marshal(cfg)
		require.NoError(t, err)
		back, err := Parse(text)
		require.NoError(t, err, "written as:\n%s", text)
		require.Equal(t, cfg, back)
	})
}
