package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/treadlight/crawl/resilience/binder"
)

func TestZeroConfigIsRefused(t *testing.T) {
	err := Config{}.Validate()
	var ps Problems
	require.ErrorAs(t, err, &ps)
	wrong := map[string]bool{}
	for _, p := range ps {
		wrong[p.Path] = true
		require.Zero(t, p.Origin, "a program's values come from nowhere")
	}
	for _, f := range fields() {
		refused := f.kind == kindChoice || f.min != "" && f.zero == "" && f.inRange(f.bound("0")) != nil || f.path == "output.path" || f.path == "warc.prefix"
		require.Equal(t, refused, wrong[f.path], f.path)
	}
}

// programs is what a program may make of the defaults and what Validate says of it.
var programs = []struct {
	change func(*Config)
	want   string
}{
	{func(*Config) {}, ""},
	{func(c *Config) { c.RateLimit.InitialRPS = 20 }, "ratelimit.initial_rps: 20 is above ratelimit.max_rps, which is 10; lower --rate or raise --max-rate"},
	{func(c *Config) { c.RateLimit.LatencyDegradeFactor = math.NaN() }, "ratelimit.latency_degrade_factor: NaN is not a number; give a factor between 1 and 100"},
	{func(c *Config) { c.Scope.Mode = "hosts" }, `scope.mode: "hosts" is not a choice; give one of host, domain, prefix, any`},
	{func(c *Config) { c.Scope.Exclude = []string{"ok", "["} }, `scope.exclude[1]: "[" is not a regular expression (missing closing ]: "["); see the syntax of Go's regexp package, or write \.pdf$ for *.pdf`},
	{func(c *Config) { c.Hosts = []Host{{Match: "a.test", InitialRPS: 1, MinRPS: 1}} }, "hosts[0].max_rps: 0 is below 0.001; give a rate in requests per second between 0.001 and 1000000"},
	{func(c *Config) {
		c.Hosts = []Host{{Match: "a.test", InitialRPS: 1, MinRPS: 1, MaxRPS: 1, Quota: Cap{Permits: 3, Per: time.Hour}}} // a quota needs no kind
	}, ""},
	{func(c *Config) {
		c.Hosts = []Host{{Match: "a.test", InitialRPS: 1, MinRPS: 1, MaxRPS: 1, Cap: Cap{Permits: 3, Per: time.Hour}}}
	}, "hosts[0].cap.kind: is missing; give one of token-bucket, fixed-window, sliding-window, sliding-window-log, leaky-bucket, concurrency"},
	{func(c *Config) {
		c.Resilience = &binder.Model{CircuitBreaker: &binder.CircuitBreaker{}, Hedging: &binder.Hedging{}}
	}, "resilience.circuit_breaker: is not for a crawl, which has one for each host; set that up in ratelimit\n" +
		"resilience.hedging: is not for a crawl, which has one request at a time under way for a URL; remove it (crawl.Client can have it)"},
	{func(c *Config) { c.RateLimit.StatsWindow = 45 * time.Second }, "ratelimit.stats_window: 45s is not a whole number of ratelimit.stats_bucket, which is 2s; give 46s"},
	{func(c *Config) { c.RateLimit.StatsBucket = time.Minute }, "ratelimit.stats_window: 30s is not a whole number of ratelimit.stats_bucket, which is 1m; give 1m"},
	{func(c *Config) { c.RateLimit.StatsBucket = 10 * time.Millisecond }, "ratelimit.stats_window: 30s is more than 1000 times ratelimit.stats_bucket, which is 10ms; give at most 10s or raise the other"},
	{func(c *Config) { c.RateLimit.StatsBucket = 0 }, "ratelimit.stats_bucket: 0 is below 10ms; give a duration with its unit, such as 1m30s, between 10ms and 1h"},
	{func(c *Config) { c.RateLimit.Shards = 24 }, "ratelimit.shards: 24 is not a power of two; give 16 or 32"},
	{func(c *Config) { c.Stats.Path = "-" }, `stats.path: "-" is output.path as well; change --stats or --output`},
	{func(c *Config) { c.Output.Path, c.Output.Events = "x", "x" }, `output.events: "x" is output.path as well; change output.events or --output`},
	{func(c *Config) { c.Output.Path, c.Output.Skipped = "x", "x" }, `output.skipped: "x" is output.path as well; change output.skipped or --output`},
	{func(c *Config) { c.Stats.Path, c.Output.Events = "x", "x" }, `output.events: "x" is stats.path as well; change output.events or --stats`},
	{func(c *Config) { c.Output.Path, c.RateLimit.Remember = "x", "x" }, `ratelimit.remember: "x" is output.path as well; change --remember or --output`},
	{func(c *Config) { c.Stats.Path, c.RateLimit.Remember = "x", "x" }, `ratelimit.remember: "x" is stats.path as well; change --remember or --stats`},
	{func(c *Config) { c.Seeds.Files, c.RateLimit.Remember = []string{"x"}, "x" }, `ratelimit.remember: "x" is seeds.file as well; change --remember or --input-file`},
	{func(c *Config) { c.RateLimit.Remember = "-" }, `ratelimit.remember: "-" cannot be read back as a file can; give a file name, or ./- for a file of that name`},
	{func(c *Config) { c.Output.Record = []string{"text", "links"} }, `output.record[1]: "links" is none of the words; give some of text, main-text, markdown, metadata, body, no-links, no-digest`},
	{func(c *Config) { c.Fetch.UserAgent = "a\r\nb" }, "fetch.user_agent: contains the unprintable character U+000D; remove it"},
	{func(c *Config) { c.Concurrency, c.Depth, c.Log.Level = 0, -5, "" }, "concurrency: 0 is below 1; give a whole number of fetches between 1 and 10000\n" +
		"depth: -5 is below -1; give a whole number of links between -1 and 1000000\n" +
		`log.level: "" is not a choice; give one of debug, info, warn, error`},
}

func TestValidateWhatAProgramMade(t *testing.T) {
	for _, c := range programs {
		cfg := Default()
		c.change(&cfg)
		before := cfg
		if err := cfg.Validate(); c.want == "" {
			require.NoError(t, err)
		} else {
			require.EqualError(t, err, c.want)
		}
		if f := before.RateLimit.LatencyDegradeFactor; !math.IsNaN(f) {
			require.Equal(t, before, cfg, "validating changes nothing")
		}
	}
}

func TestWhatMessagesOfferIsAccepted(t *testing.T) {
	for _, offered := range []string{"stats_window: 46s", "stats_bucket: 1m, stats_window: 1m", "stats_bucket: 10ms, stats_window: 10s"} {
		mustLoad(t, yamlFile("ratelimit: {"+offered+"}"))
	}
}

// TestEveryBoundIsHeld goes one step over both bounds of each row, through a flag where
// there is one and through the environment where there is none.
func TestEveryBoundIsHeld(t *testing.T) {
	for _, f := range fields() {
		if f.min == "" {
			continue
		}
		for _, bound := range []string{f.min, f.max} {
			_, err := Load(Sources{Env: []string{f.env() + "=" + bound}})
			if err != nil { // a bound may contradict another default, but it is in range
				require.NotRegexp(t, f.path+`: .* is (below|above) [0-9]`, err.Error())
			}
		}
		for _, beyond := range []string{"-2", "99999999999999"} {
			if f.kind == kindDuration {
				beyond += "ms"
			}
			err := loadOne(&f, beyond)
			require.ErrorContains(t, err, f.path+": ", beyond)
			require.ErrorContains(t, err, "give "+f.want(), beyond)
			require.NotContains(t, err.Error(), "\n", "%s=%s is one problem", f.path, beyond)
		}
	}
}

func loadOne(f *field, value string) error {
	src := Sources{Env: []string{f.env() + "=" + value}}
	if f.flag != "" {
		src = Sources{Flags: []FlagValue{flag(f.flag, value)}}
	}
	_, err := Load(src)
	return err
}

func TestLongValuesAreClippedInMessages(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	for _, f := range fields() {
		if f.kind == kindText || f.kind == kindList {
			continue
		}
		err := loadOne(&f, long)
		require.Error(t, err, f.path)
		require.Less(t, len(err.Error()), 400, f.path)
	}
}

func TestHiddenRules(t *testing.T) {
	for _, c := range []struct {
		first, second string
		hidden        bool
	}{
		{"a.test", "b.test", false},
		{"a.test", "a.test", true},
		{"a.test", "a.test:8080", true},
		{"a.test:8080", "a.test", false},
		{"a.test:8080", "a.test:8081", false},
		{"*.a.test", "a.test", false},
		{"*.a.test", "x.a.test", true},
		{"*.a.test", "y.x.a.test", true},
		{"*.a.test", "*.x.a.test", true},
		{"*.a.test", "xa.test", false},
		{"*.a.test", "x.a.test:8080", true},
		{"*.a.test:8080", "x.a.test:8080", true},
		{"*.a.test:8080", "x.a.test", false},
		{"x.a.test", "*.a.test", false},
		{"*.x.a.test", "*.a.test", false},
		{"[2001:db8::1]", "[2001:db8::1]:8080", true},
		{"192.0.2.1", "192.0.2.2", false},
	} {
		_, err := Load(yamlFile("hosts:\n- match: '" + c.first + "'\n- match: '" + c.second + "'\n"))
		if !c.hidden {
			require.NoError(t, err, "%s before %s", c.first, c.second)
			continue
		}
		require.ErrorContains(t, err, "hosts[1].match: ", "%s before %s", c.first, c.second)
		require.ErrorContains(t, err, "is covered by hosts[0]")
	}
}

// free are the rows whose values bound no other and that a flag can set, if only --set, so
// that a random one in each layer is valid.
func free() []field {
	var rows []field
	for _, f := range fields() {
		switch {
		case f.noStruct, f.kind == kindList, f.kind == kindText, section(f.path) == "ratelimit" && f.flag == "":
		case f.path == "ratelimit.initial_rps", f.path == "ratelimit.max_rps", section(f.path) == "log":
		case f.path == "output.format": // warc wants a directory
		default:
			rows = append(rows, f)
		}
	}
	return rows
}

func anyValue(t *rapid.T, f *field) string {
	switch f.kind {
	case kindBool:
		return rapid.SampledFrom([]string{"true", "false"}).Draw(t, "bool")
	case kindChoice:
		return rapid.SampledFrom(f.enum).Draw(t, "choice")
	case kindInt:
		lo, hi := f.bound(f.min).(int64), f.bound(f.max).(int64)
		return fmt.Sprint(rapid.Int64Range(lo, hi).Draw(t, "int"))
	case kindRate, kindNumber:
		lo, _ := number(f.bound(f.min))
		hi, _ := number(f.bound(f.max))
		return f.format(rapid.Float64Range(lo, hi).Draw(t, "number"))
	}
	return rapid.SampledFrom([]string{f.min, f.max, f.def}).Draw(t, "sample")
}

// TestLayersAgainstAModel lays random values of random settings over each other and
// compares with the obvious: per setting, the last layer that has it.
func TestLayersAgainstAModel(t *testing.T) {
	rows := free()
	require.Greater(t, len(rows), 20)
	rapid.Check(t, func(t *rapid.T) {
		file := map[string]any{}
		var src Sources
		model, from := map[string]string{}, map[string]string{}
		for i := range rows {
			f := &rows[i]
			layers := rapid.IntRange(0, 7).Draw(t, "layers")
			if layers&1 != 0 {
				v := anyValue(t, f)
				in := file
				if s := section(f.path); s != "" {
					if file[s] == nil {
						file[s] = map[string]any{}
					}
					in = file[s].(map[string]any)
				}
				in[leaf(f.path)] = v
				model[f.path], from[f.path] = v, fromFile
			}
			if layers&2 != 0 {
				v := anyValue(t, f)
				src.Env = append(src.Env, f.env()+"="+v)
				model[f.path], from[f.path] = v, fromEnv
			}
			if layers&4 != 0 {
				v := anyValue(t, f)
				src.Flags = append(src.Flags, flagFor(f, v))
				model[f.path], from[f.path] = v, fromFlag
			}
		}
		text := must(json.Marshal(file))
		src.File, src.Reader = "m.json", bytes.NewReader(text)
		l := must(Load(src))
		for i := range rows {
			f := &rows[i]
			want, source := f.bound(f.def), fromDefault
			if v, ok := model[f.path]; ok {
				want, source = f.bound(v), from[f.path]
			}
			require.Equal(t, want, get(&l.Config, f.path), f.path)
			require.Equal(t, source, l.Origins[f.path].Source, f.path)
		}
	})
}

func flagFor(f *field, value string) FlagValue {
	if f.flag == "" {
		return FlagValue{setFlag, f.path + "=" + value}
	}
	return FlagValue{f.flag, value}
}

// TestRatesAlwaysSettle draws any of the three rates in any layer: either the result is
// in order with every written value kept, or two written ones are named.
func TestRatesAlwaysSettle(t *testing.T) {
	names := []string{"min_rps", "initial_rps", "max_rps"}
	f := find(fields(), "ratelimit.max_rps")
	rapid.Check(t, func(t *rapid.T) {
		var src Sources
		written := map[string]float64{}
		for _, name := range names {
			if rapid.Bool().Draw(t, name+" written") {
				x := rapid.Float64Range(0.001, 10000).Draw(t, name)
				written[name] = x
				src.Env = append(src.Env, find(fields(), "ratelimit."+name).env()+"="+f.format(x))
			}
		}
		inOrder := true
		for i, low := range names {
			for _, high := range names[i+1:] {
				a, okA := written[low]
				b, okB := written[high]
				inOrder = inOrder && (!okA || !okB || a <= b)
			}
		}
		l, err := Load(src)
		if !inOrder {
			require.ErrorContains(t, err, "is above ratelimit.")
			return
		}
		require.NoError(t, err)
		r := l.Config.RateLimit
		require.LessOrEqual(t, r.MinRPS, r.InitialRPS)
		require.LessOrEqual(t, r.InitialRPS, r.MaxRPS)
		for name, x := range written {
			require.InDelta(t, x, get(&l.Config, "ratelimit."+name), 0, name)
		}
	})
}
