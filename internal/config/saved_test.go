package config

import (
	"bytes"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/records/sink"
)

// A setting that was retired is an error in every layer, which says what to write.
func TestRetiredSettings(t *testing.T) {
	for _, g := range goneSettings {
		if name, _, _ := strings.Cut(strings.ReplaceAll(g.instead, ",", ""), " "); name != "" {
			require.NotNil(t, find(fields(), name), "%s has the successor %s", g.paths, name)
		}
		for path := range strings.FieldsSeq(g.paths) {
			require.Nil(t, find(fields(), path), path)
			for from, src := range map[string]Sources{
				"file crawl.yaml:2":  yamlFile(section(path) + ":\n  " + leaf(path) + ": 1\n"),
				"env " + envOf(path): {Env: []string{envOf(path) + "=1"}},
				"flag --set " + path: {Flags: flags("set", path+"=1")},
			} {
				require.Equal(t, []string{path + ": " + g.says() + " [" + from + "]"}, problems(t, src))
			}
		}
		for flag := range strings.FieldsSeq(g.flags) {
			require.Equal(t, []string{"--" + flag + " " + g.says() + " [flag --" + flag + "]"}, problems(t, Sources{Flags: flags(flag, "1")}))
		}
	}
}

func envOf(path string) string { return (&field{path: path}).env() }

// A flag that is none any more says how its setting is written, and the setting can be.
func TestRetiredFlags(t *testing.T) {
	all := map[string]bool{}
	for _, f := range Flags() {
		all[f.Name] = true
		require.Empty(t, RetiredFlag(f.Name))
	}
	n := 0
	for _, f := range fields() {
		if f.was == "" {
			continue
		}
		n++
		require.False(t, all[f.was], f.was)
		require.Empty(t, f.flag)
		require.Contains(t, RetiredFlag(f.was), "--set "+f.path+"=")
		value := f.example
		if value == "" {
			value = f.def
		}
		given := flags("set", f.path+"="+value)
		if f.path == "access.key" {
			given = append(given, flags("set", "access.cert=x")...)
		}
		l := mustLoad(t, Sources{Flags: given})
		path := f.path
		if f.kind == kindList {
			path += "[0]"
		}
		require.Equal(t, "flag --set "+f.path, l.Origins[path].String())
	}
	require.Greater(t, n, 30)
	require.Equal(t, "is no flag any more; give --set sitemaps.feeds=false, CRAWL_SITEMAPS_FEEDS, or sitemaps.feeds in a file", RetiredFlag("no-feeds"))
	require.Empty(t, RetiredFlag("nonsense"))
}

func TestSetByPath(t *testing.T) {
	l := mustLoad(t, Sources{Flags: flags("set", "per_host_max=2", "set", "scope.include=a=b", "include", "c", "set", "ratelimit.enabled=false")})
	require.Equal(t, 2, l.Config.PerHostMax)
	require.Equal(t, []string{"a=b", "c"}, l.Config.Scope.Include)
	require.Equal(t, "flag --include", l.Origins["scope.include[1]"].String())
	require.False(t, l.Config.RateLimit.Enabled())
	for setting, want := range map[string]string{
		"per_host_max":          "--set has no =; give PATH=VALUE, such as per_host_max=2 [flag --set]",
		"per_host_max=0":        "per_host_max: 0 is below 1; give a whole number of fetches between 1 and 1000 [flag --set per_host_max]",
		"scope.mood=any":        "scope.mood: is not a setting; did you mean scope.mode? [flag --set scope.mood]",
		"hosts=[]":              "hosts: can be given in a file only [flag --set hosts]",
		"resilience.retry=1":    "resilience.retry: can be given in a file only [flag --set resilience.retry]",
		"retries=1":             "retries: is not a setting; did you mean ratelimit.retry_max_attempts? [flag --set retries]",
		"far.from.all=database": "far.from.all: is not a setting; see crawl config --reference [flag --set far.from.all]",
	} {
		require.Equal(t, []string{want}, problems(t, Sources{Flags: flags("set", setting)}))
	}
}

// What users are asked to know is bounded. The blueprint of the limiter names 21 of the
// settings, and policies are counted with theirs.
func TestCountOfSettings(t *testing.T) {
	const blueprint = 22 // all of ratelimit that Config has, with the samples of its ring of latencies
	require.LessOrEqual(t, len(fields())+len(hostFields())-blueprint, 117, "settings beside those of the blueprints")
	shown := 1 // --config
	for _, f := range Flags() {
		if !f.Hidden {
			shown++
		}
	}
	require.LessOrEqual(t, shown, 60, "flags of a crawl")
}

func flags(pairs ...string) (given []FlagValue) {
	for i := 0; i < len(pairs); i += 2 {
		given = append(given, FlagValue{Name: pairs[i], Value: pairs[i+1]})
	}
	return given
}

func first(t *testing.T, src Sources) *Config {
	t.Helper()
	loaded := must(Load(src))
	var b bytes.Buffer
	require.NoError(t, loaded.Config.Save(&b))
	back, err := Load(Sources{File: "saved.yaml", Reader: &b})
	require.NoError(t, err, b.String())
	loaded.Config.Output.Overwrite = false
	require.Equal(t, loaded.Config, back.Config, "what is saved is read back")
	return &back.Config
}

const settings = `
concurrency: 7
depth: 3
scope: {mode: domain, include: [a, "b: #c"], scores: ["5 /x", "-3 y"]}
ratelimit: {strategy: aimd, max_rps: 5}
hosts:
  - {match: a.test, max_rps: 2}
  - {match: "*.b.test", cap: {kind: leaky-bucket, permits: 3, per: 1s}}
fetch:
  headers: ["Authorization: Bearer s3cret", "X-Quote: \"a\" 'b'"]
  user_agent: "X/1 (\\)"
resilience: {retry: {max_retries: 2}, timeout: {seconds: 5}}
output: {path: out/records.jsonl, overwrite: true, record: text}
frontier: {order: depth}
`

func TestSavedIsWhole(t *testing.T) {
	c := first(t, Sources{File: "x.yaml", Reader: strings.NewReader(settings)})
	require.Equal(t, []string{"Authorization: Bearer s3cret", `X-Quote: "a" 'b'`}, c.Fetch.Headers, "credentials are needed again")
	first(t, Sources{})
	// With nothing given now, all is as it was.
	again := must(Load(Sources{Saved: c, SavedIn: "out"}))
	require.Equal(t, *c, again.Config)
	require.Equal(t, "state out", again.Origins["concurrency"].String())
	require.Equal(t, "state out", again.Origins["scope.include[1]"].String())
}

func TestSavedGivesWay(t *testing.T) {
	for _, tc := range []struct {
		name       string
		begun, now []FlagValue
		file       string
		want       func(*Config)
	}{
		{"a flag", flags("concurrency", "5"), flags("concurrency", "9"), "", func(c *Config) { c.Concurrency = 9 }},
		{"a file", flags("concurrency", "5", "depth", "2"), nil, "concurrency: 9", func(c *Config) { c.Concurrency, c.Depth = 9, 2 }},
		{"a flag over a file", flags("concurrency", "5"), flags("concurrency", "8"), "concurrency: 9", func(c *Config) { c.Concurrency = 8 }},
		{"a list as a whole", flags("include", "a", "include", "b"), flags("include", "c"), "", func(c *Config) { c.Scope.Include = []string{"c"} }},
		{"what followed follows again", flags("rate", "20"), flags("rate", "30"), "", func(c *Config) { c.RateLimit.InitialRPS, c.RateLimit.MaxRPS = 30, 30 }},
		{"down too", flags("max-rate", "0.5"), flags("max-rate", "2"), "", func(c *Config) { c.RateLimit.MaxRPS = 2 }},
		{"a default moves", nil, flags("rate", "30"), "", func(c *Config) { c.RateLimit.InitialRPS, c.RateLimit.MaxRPS = 30, 30 }},
		{"quiet for one run", flags("quiet", "true"), nil, "", func(*Config) {}},
		{"verbose for one run", flags("verbose", "true"), nil, "", func(*Config) {}},
		{"a level for one run", flags("set", "log.level=warn", "progress", "plain"), nil, "", func(*Config) {}},
		{"quiet no more", flags("quiet", "true"), flags("verbose", "true"), "", func(c *Config) { c.Log.Level = "debug" }},
		{"how messages are written", flags("set", "log.format=json"), nil, "", func(c *Config) { c.Log.Format = "json" }},
		{"the strategy", flags("strategy", "off"), nil, "ratelimit: {enabled: true}", func(*Config) {}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			src := Sources{Saved: first(t, Sources{Flags: tc.begun}), Flags: tc.now}
			if tc.file != "" {
				src.File, src.Reader = "now.yaml", strings.NewReader(tc.file)
			}
			got := must(Load(src))
			want := Default()
			tc.want(&want)
			require.Equal(t, want, got.Config)
		})
	}
}

func TestSavedRules(t *testing.T) {
	begun := first(t, Sources{File: "x.yaml", Reader: strings.NewReader("hosts: [{match: a.test, min_delay: 2s}, {match: b.test, max_rps: 3}]")})
	got, err := Load(Sources{Saved: begun, Flags: flags("max-rate", "20")})
	require.NoError(t, err)
	require.Len(t, got.Config.Hosts, 2)
	require.Equal(t, 20.0, got.Config.Hosts[0].MaxRPS, "what the rule had not said")
	require.Equal(t, 2*time.Second, got.Config.Hosts[0].MinDelay)
	require.Equal(t, 3.0, got.Config.Hosts[1].MaxRPS)
	require.Equal(t, 10.0, begun.Hosts[0].MaxRPS, "what was saved is not changed")

	got, err = Load(Sources{Saved: begun, File: "now.yaml", Reader: strings.NewReader("hosts: [{match: c.test, max_rps: 1}]\nresilience: {}")})
	require.NoError(t, err)
	require.Len(t, got.Config.Hosts, 1, "a list is replaced")
	require.Equal(t, "c.test", got.Config.Hosts[0].Match)
	require.NotContains(t, slices.Collect(maps.Keys(got.Origins)), "hosts[1].match")
}

func TestSavedPoliciesAreReplaced(t *testing.T) {
	begun := first(t, Sources{File: "x.yaml", Reader: strings.NewReader("resilience: {retry: {max_retries: 2}, circuit_breaker: {failure_threshold: 9}}")})
	require.Equal(t, 9, begun.RateLimit.ConsecutiveFailThreshold)
	got, err := Load(Sources{Saved: begun})
	require.NoError(t, err)
	require.Equal(t, *begun, got.Config)
	got, err = Load(Sources{Saved: begun, File: "now.yaml", Reader: strings.NewReader("resilience: {timeout: {seconds: 3}}")})
	require.NoError(t, err)
	require.Nil(t, got.Config.Resilience.Retry)
	require.NotNil(t, got.Config.Resilience.Timeout)
	got, err = Load(Sources{Saved: begun, File: "now.yaml", Reader: strings.NewReader("resilience: {}")})
	require.NoError(t, err)
	require.Nil(t, got.Config.Resilience)
}

func TestWhatCannotChange(t *testing.T) {
	begun := first(t, Sources{Flags: flags("output", "out/records.jsonl", "state", "out")})
	_, err := Load(Sources{Saved: begun, Flags: flags("output", "other", "format", "csv", "overwrite", "true", "state", "s")})
	for _, want := range []string{
		`output.path: cannot change when a crawl is resumed, it is "out/records.jsonl": its records go on in the file they are in, and one that was moved is to be moved back; leave --output out [flag --output]`,
		`output.format: cannot change when a crawl is resumed, it is jsonl: `,
		`output.overwrite: cannot change when a crawl is resumed, it is false: `,
		`state.dir: cannot change when a crawl is resumed, it is "out": the directory is given already; leave --state out [flag --state]`,
	} {
		require.ErrorContains(t, err, want)
	}
	_, err = Load(Sources{Saved: begun, Flags: flags("output", "out/records.jsonl", "format", "jsonl", "record", "text")})
	require.NoError(t, err, "to say the same again is no harm")
	_, err = Load(Sources{Saved: first(t, Sources{Flags: flags("max-rate", "3")}), SavedIn: "out", Flags: flags("rate", "5")})
	require.ErrorContains(t, err, "ratelimit.initial_rps: 5 is above ratelimit.max_rps, which is 3 [state out]")
}

func TestScores(t *testing.T) {
	for text, want := range map[string]string{
		"5 ^https://a.test/": "",
		"-1000 .":            "",
		"1000 a b":           "",
		"1001 a":             "give a whole number from -1000 to 1000, a space and a regular expression",
		"a 5":                "does not begin with points",
		"5":                  "does not begin with points",
		"5 ":                 "is empty and would match every URL",
		"5 (":                "is not a regular expression",
	} {
		_, err := Load(Sources{Flags: flags("set", "scope.scores="+text)})
		if want == "" {
			require.NoError(t, err, text)
			continue
		}
		require.ErrorContains(t, err, want, text)
		require.ErrorContains(t, err, "scope.scores[0]", text)
	}
}

func TestStateDirectory(t *testing.T) {
	_, err := Load(Sources{Flags: flags("state", "-")})
	require.ErrorContains(t, err, `state.dir: "-" is a stream and no directory; give its name, or ./- for one of that name [flag --state]`)
}

// What an earlier run wrote stays as it is, also if its name says another format by the rules
// of today: only who begins a crawl is told.
func TestSavedNamesStay(t *testing.T) {
	for _, tc := range []struct{ path, format, refused string }{
		{"out.csv", "jsonl", `"jsonl" contradicts the ending .csv of "out.csv"`},
		{"out.jsonl.zst", "jsonl", "nothing is written as .zst"},
		{"out.gz", "warc", "is one file"},
	} {
		old := Default()
		old.Output.Path, old.Output.Format = tc.path, tc.format
		var b bytes.Buffer
		require.NoError(t, old.Save(&b))
		text := b.String()
		_, err := Load(Sources{File: "settings.yaml", Reader: strings.NewReader(text)})
		require.ErrorContains(t, err, tc.refused, "as a file that a person has written")
		saved := must(Load(Sources{File: "settings.yaml", Reader: strings.NewReader(text), SavedIn: "out"}))
		require.Equal(t, old, saved.Config)
		resumed := must(Load(Sources{Saved: &saved.Config, SavedIn: "out"}))
		require.Equal(t, old, resumed.Config)
	}
}

// The name of a file says its format, for every format that there is, and the setting takes it.
func TestEndings(t *testing.T) {
	for _, spec := range sink.Formats() {
		for _, ending := range spec.Endings {
			loaded, err := Load(Sources{Flags: flags("output", "X"+strings.ToUpper(ending))})
			require.NoError(t, err, ending)
			require.EqualValues(t, spec.Format, loaded.Config.Output.Format)
			_, err = Load(Sources{Flags: flags("output", "x"+ending+".gz", "format", string(spec.Format))})
			require.NoError(t, err, ending)
		}
		_, err := Load(Sources{Flags: flags("output", "x.xml", "format", string(spec.Format))})
		require.NoError(t, err, "the format was given, whatever the name says")
	}
	_, err := Load(Sources{Flags: flags("output", "x.xml")})
	require.ErrorContains(t, err, "end the name in "+sink.EndingList(" or ")+", with .gz")
}

// Several processes cannot write one archive, and each can write one of its own.
func TestOneArchiveOfAFleet(t *testing.T) {
	given := flags("redis", "redis://127.0.0.1:1", "job", "j", "output", "")
	load := func(path string) error {
		given[len(given)-1].Value = path
		_, err := Load(Sources{Flags: given})
		return err
	}
	require.ErrorContains(t, load("x.warc.gz"), "several processes cannot write together; put {worker} into its name")
	require.NoError(t, load("x-{worker}.warc.gz"))
	require.NoError(t, load("x.jsonl"))
}

// A state that was moved, with what is in it, names the files that moved along.
func TestSavedPathsMoveAlong(t *testing.T) {
	begun, moved := t.TempDir(), t.TempDir()
	c := Default()
	named := 0
	for _, f := range append(fields(), hostFields()...) {
		if f.namesFile() {
			named++
		}
	}
	require.Equal(t, 18, named, "a setting that names a file is to be in this test")
	in := func(dir, name string) string { return filepath.Join(dir, name) }
	paths := func(c *Config) []*string {
		return []*string{
			&c.Output.Path, &c.Output.Events, &c.Output.Skipped, &c.Stats.Path, &c.RateLimit.Remember, &c.WARC.Dir, &c.Seeds.Files[0], &c.Access.Netrc, &c.Access.CookieFile,
			&c.Access.Cert, &c.Access.Key, &c.Access.CAFile, &c.Fleet.CAFile, &c.Fleet.PasswordFile, &c.Render.Screenshot, &c.Hosts[0].Cert, &c.Hosts[0].Key,
		}
	}
	c.Render.Mode = "auto"
	c.Seeds.Files, c.Hosts = []string{"", "-"}, []Host{{Match: "a.test", InitialRPS: 1, MinRPS: 1, MaxRPS: 1}}
	for i, p := range paths(&c) {
		*p = in(begun, fmt.Sprint("f", i))
	}
	c.State.Dir = begun
	before := c.Seeds.Files[0]
	text := must(c.SaveIn(begun))
	require.NotContains(t, text, begun)
	require.Equal(t, before, c.Seeds.Files[0], "what is saved is not changed")
	back := must(LoadSaved(moved, text))
	for i, p := range paths(&back) {
		require.Equal(t, in(moved, fmt.Sprint("f", i)), *p)
	}
	require.Equal(t, "-", back.Seeds.Files[1])
	require.Equal(t, moved, back.State.Dir)
}
