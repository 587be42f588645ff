package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func yamlFile(text string) Sources {
	return Sources{File: "crawl.yaml", Reader: strings.NewReader(text)}
}

func mustLoad(t *testing.T, src Sources) *Loaded {
	t.Helper()
	l := must(Load(src))
	return l
}

func problems(t *testing.T, src Sources) []string {
	t.Helper()
	l, err := Load(src)
	require.Error(t, err)
	require.Nil(t, l)
	require.ErrorAs(t, err, new(Problems))
	return strings.Split(err.Error(), "\n")
}

func flag(name, value string) FlagValue { return FlagValue{Name: name, Value: value} }

func TestLoadNothingIsDefault(t *testing.T) {
	l := mustLoad(t, Sources{})
	require.Equal(t, Default(), l.Config)
	for path, o := range l.Origins {
		require.Equal(t, Origin{Source: "default"}, o, path)
	}
	require.Len(t, l.Origins, len(fields())+1, "one each, with hosts and resilience, without ratelimit.enabled")
	require.Len(t, l.Warnings, 1)
	require.Contains(t, l.Warnings[0], "--contact")
	for seed, warned := range map[string]bool{"127.0.0.1:8080": false, "http://localhost/": false, "http://[::1]/": false, "a.test": true, "http://192.168.0.1/": true} {
		own, err := Load(Sources{Seeds: []string{"http://127.0.1.1/", seed}})
		require.NoError(t, err)
		require.Equal(t, warned, len(own.Warnings) > 0, "a site of this machine needs no contact: %s", seed)
	}
}

func TestListsAreReplaced(t *testing.T) {
	src := yamlFile("scope:\n  include:\n    - a\n    - b\n    - c\n  exclude: x\nfetch:\n  headers:\n")
	l := mustLoad(t, src)
	require.Equal(t, []string{"a", "b", "c"}, l.Config.Scope.Include)
	require.Equal(t, []string{"x"}, l.Config.Scope.Exclude)
	require.Nil(t, l.Config.Fetch.Headers)
	require.Equal(t, Origin{"file", "crawl.yaml", 5}, l.Origins["scope.include[2]"])

	src = yamlFile("scope: {include: [a, b, c], exclude: [x]}")
	src.Env = []string{"CRAWL_SCOPE_EXCLUDE=y,1\nz\n"}
	src.Flags = []FlagValue{flag("include", "d"), flag("header", "A: 1"), flag("include", "e")}
	l = mustLoad(t, src)
	require.Equal(t, []string{"d", "e"}, l.Config.Scope.Include)
	require.Equal(t, []string{"y,1", "z"}, l.Config.Scope.Exclude)
	require.Equal(t, []string{"A: 1"}, l.Config.Fetch.Headers)
	require.Equal(t, "flag --include", l.Origins["scope.include[1]"].String())
	require.NotContains(t, l.Origins, "scope.include[2]")
}

func TestFlagForms(t *testing.T) {
	for _, c := range []struct {
		given []FlagValue
		path  string
		want  any
	}{
		{[]FlagValue{flag("no-robots", "true")}, "robots.enabled", false},
		{[]FlagValue{flag("no-robots", "false")}, "robots.enabled", true},
		{[]FlagValue{flag("robots", "false")}, "robots.enabled", false},
		{[]FlagValue{flag("no-robots", "true"), flag("robots", "true")}, "robots.enabled", true},
		{[]FlagValue{flag("overwrite", "true"), flag("no-overwrite", "true")}, "output.overwrite", false},
		{[]FlagValue{flag("delay", "2s")}, "ratelimit.min_delay", 2 * time.Second},
		{[]FlagValue{flag("min-delay", "2s"), flag("delay", "3s")}, "ratelimit.min_delay", 3 * time.Second},
		{[]FlagValue{flag("retries", "0")}, "ratelimit.retry_max_attempts", int64(0)},
		{[]FlagValue{flag("strategy", "off")}, "ratelimit.strategy", "off"},
		{[]FlagValue{flag("input-file", "-")}, "seeds.file", []string{"-"}},
		{[]FlagValue{flag("max-pages", "1_000_000")}, "max_pages", int64(1e6)},
	} {
		l := mustLoad(t, Sources{Flags: c.given})
		require.Equal(t, c.want, get(&l.Config, c.path), "%v", c.given)
		require.Equal(t, "--"+c.given[len(c.given)-1].Name, l.Origins[c.path].Name)
	}
	require.Equal(t, []string{
		`--consurrency is not a flag; did you mean --concurrency? [flag --consurrency]`,
		`--zzzzzzzzzz is not a flag [flag --zzzzzzzzzz]`,
		`robots.enabled: "perhaps" is neither; give true or false [flag --no-robots]`,
	}, problems(t, Sources{Flags: []FlagValue{
		flag("zzzzzzzzzz", ""), flag("consurrency", "1"), flag("no-robots", "perhaps"),
	}}))
}

func TestUnknownVariablesWarn(t *testing.T) {
	l := mustLoad(t, Sources{Env: []string{
		"CRAWL_MAX_PAGE=1", "CRAWL_SERVICE_HOST=10.0.0.1", "CRAWL_CONFIG=x.yaml", "CRAWLER=1",
		"CRAWL_FETCH_CONTACT=a@b.test", "CRAWL_DEPTH=1", "CRAWL_DEPTH=2", "CRAWL_CONCURRENCY=", "HOME",
	}})
	require.Equal(t, []string{
		"CRAWL_MAX_PAGE is not a setting and was ignored; did you mean CRAWL_MAX_PAGES?",
		"CRAWL_SERVICE_HOST is not a setting and was ignored",
	}, l.Warnings)
	require.Equal(t, 2, l.Config.Depth, "of two equal names the last counts")
	require.Equal(t, "env CRAWL_DEPTH", l.Origins["depth"].String())
	require.Equal(t, "default", l.Origins["concurrency"].String(), "an empty one says nothing")
}

func TestEnabledIsASpellingOfStrategy(t *testing.T) {
	for _, c := range []struct {
		name  string
		src   Sources
		flags []FlagValue
		want  string
		from  string
	}{
		{"false is off", yamlFile("ratelimit: {enabled: false}"), nil, "off", "file crawl.yaml:1"},
		{"true changes nothing", yamlFile("ratelimit: {enabled: true}"), nil, "steer", "default"},
		{"agreeing", yamlFile("ratelimit: {enabled: false, strategy: off}"), nil, "off", "file crawl.yaml:1"},
		{"flag over file", yamlFile("ratelimit: {enabled: false}"), []FlagValue{flag("strategy", "aimd")}, "aimd", "flag --strategy"},
		{"env", Sources{Env: []string{"CRAWL_RATELIMIT_ENABLED=0"}}, nil, "off", "env CRAWL_RATELIMIT_ENABLED"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.src.Flags = c.flags
			l := mustLoad(t, c.src)
			require.Equal(t, c.want, l.Config.RateLimit.Strategy)
			require.Equal(t, c.want != "off", l.Config.RateLimit.Enabled())
			require.Equal(t, c.from, l.Origins["ratelimit.strategy"].String())
			require.NotContains(t, l.Origins, enabledPath)
		})
	}
	src := yamlFile("ratelimit: {strategy: off}")
	src.Env = []string{"CRAWL_RATELIMIT_ENABLED=true"}
	require.Equal(t, "steer", mustLoad(t, src).Config.RateLimit.Strategy, "a stronger layer switches on again")
}

func TestUnwrittenNeighboursMove(t *testing.T) {
	for _, c := range []struct {
		name          string
		flags         []FlagValue
		file          string
		min, ini, max float64
		follows       map[string]string
	}{
		{"--rate above the maximum", []FlagValue{flag("rate", "20")}, "", 0.1, 20, 20, map[string]string{"max_rps": "initial_rps"}},
		{"--max-rate below the start", []FlagValue{flag("max-rate", "0.5")}, "", 0.1, 0.5, 0.5, map[string]string{"initial_rps": "max_rps"}},
		{"--max-rate below all", []FlagValue{flag("max-rate", "0.01")}, "", 0.01, 0.01, 0.01, map[string]string{"initial_rps": "max_rps", "min_rps": "max_rps"}},
		{"--rate below the minimum", []FlagValue{flag("rate", "0.05")}, "", 0.05, 0.05, 10, map[string]string{"min_rps": "initial_rps"}},
		{"minimum above all", nil, "ratelimit: {min_rps: 30}", 30, 30, 30, map[string]string{"initial_rps": "min_rps", "max_rps": "min_rps"}},
		{"two written, one moves", []FlagValue{flag("max-rate", "5")}, "ratelimit: {min_rps: 2}", 2, 2, 5, map[string]string{"initial_rps": "min_rps"}},
		{"nothing needs to", []FlagValue{flag("rate", "5"), flag("max-rate", "6")}, "", 0.1, 5, 6, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			src := yamlFile(c.file)
			src.Flags = c.flags
			l := mustLoad(t, src)
			r := l.Config.RateLimit
			require.Equal(t, []float64{c.min, c.ini, c.max}, []float64{r.MinRPS, r.InitialRPS, r.MaxRPS})
			for moved, leader := range c.follows {
				require.Equal(t, "follows ratelimit."+leader, l.Origins["ratelimit."+moved].String())
			}
			require.NoError(t, l.Config.Validate())
		})
	}
	l := mustLoad(t, yamlFile("ratelimit: {retry_max_delay: 100ms}"))
	require.Equal(t, 100*time.Millisecond, l.Config.RateLimit.RetryBaseDelay)
	l = mustLoad(t, yamlFile("ratelimit: {retry_base_delay: 45s}"))
	require.Equal(t, 45*time.Second, l.Config.RateLimit.RetryMaxDelay)
}

// Who gives --rate alone may take it for a limit, and is told where that is not so.
func TestRateAloneIsNoLimit(t *testing.T) {
	const told = "--rate 2 is the rate to begin with, and a host that bears it is asked up to 10 times per second; for a limit give --max-rate 2"
	for _, c := range []struct {
		name  string
		flags []FlagValue
		file  string
		want  bool
	}{
		{"alone", []FlagValue{flag("rate", "2")}, "", true},
		{"with the limit", []FlagValue{flag("rate", "2"), flag("max-rate", "10")}, "", false},
		{"with the limit in a file", []FlagValue{flag("rate", "2")}, "ratelimit: {max_rps: 10}", false},
		{"above the usual limit", []FlagValue{flag("rate", "20")}, "", false},
		{"where it is the rate", []FlagValue{flag("rate", "2"), flag("strategy", "fixed")}, "", false},
		{"where there is none", []FlagValue{flag("rate", "2"), flag("strategy", "off")}, "", false},
		{"by the name of the setting", nil, "ratelimit: {initial_rps: 2}", false},
	} {
		src := yamlFile(c.file)
		src.Flags = c.flags
		require.Equal(t, c.want, slices.Contains(mustLoad(t, src).Warnings, told), c.name)
	}
}

func TestWrittenNeighboursContradict(t *testing.T) {
	src := yamlFile("ratelimit:\n  max_rps: 4\n  retry_base_delay: 2s\n  retry_max_delay: 1s\n")
	src.Flags = []FlagValue{flag("rate", "20")}
	require.Equal(t, []string{
		"ratelimit.initial_rps: 20 is above ratelimit.max_rps, which is 4 [file crawl.yaml:2]; lower --rate or raise --max-rate [flag --rate]",
		"ratelimit.retry_base_delay: 2s is above ratelimit.retry_max_delay, which is 1s [file crawl.yaml:4]; lower ratelimit.retry_base_delay or raise ratelimit.retry_max_delay [file crawl.yaml:3]",
	}, problems(t, src))
}

func TestVerboseAndQuiet(t *testing.T) {
	for _, c := range []struct {
		name  string
		file  string
		flags []FlagValue
		level string
	}{
		{"plain", "", nil, "info"},
		{"verbose", "", flags("verbose", "true"), "debug"},
		{"quiet", "", flags("quiet", "true"), "error"},
		{"verbose=false says nothing", "log: {level: warn}", flags("verbose", "false", "quiet", "false"), "warn"},
		{"a flag beats a level in the file", "log: {level: warn}", flags("verbose", "true"), "debug"},
		{"the last one of the command line wins", "", flags("verbose", "true", "set", "log.level=warn"), "warn"},
		{"verbose over a quiet file", "log: {level: error}", flags("verbose", "true"), "debug"},
	} {
		t.Run(c.name, func(t *testing.T) {
			src := yamlFile(c.file)
			src.Flags = c.flags
			log := mustLoad(t, src).Config.Log
			require.Equal(t, c.level, log.Level)
			require.Equal(t, c.level == "error", log.Quiet())
		})
	}
	require.Equal(t,
		[]string{"log.level: contradicts --quiet; give one of --quiet and --verbose [flag --verbose]"},
		problems(t, Sources{Flags: flags("quiet", "true", "verbose", "true")}))
}

func TestHostRulesAreCompleted(t *testing.T) {
	src := yamlFile(`
ratelimit: {min_delay: 2s}
hosts:
  - match: slow.example.com
    max_rps: 0.5
    min_delay: 0
  - {match: "*.example.com", initial_rps: 25}
`)
	l := mustLoad(t, src)
	require.Equal(t, []Host{
		{
			Match: "slow.example.com", InitialRPS: 0.5, MinRPS: 0.1, MaxRPS: 0.5, MinDelay: 0,
		},
		{
			Match: "*.example.com", InitialRPS: 25, MinRPS: 0.1, MaxRPS: 25, MinDelay: 2 * time.Second,
		},
	}, l.Config.Hosts)
	for path, want := range map[string]string{
		"hosts[0].match":       "file crawl.yaml:4",
		"hosts[0].max_rps":     "file crawl.yaml:5",
		"hosts[0].initial_rps": "follows hosts[0].max_rps",
		"hosts[0].min_rps":     "follows ratelimit.min_rps",
		"hosts[1].max_rps":     "follows hosts[1].initial_rps",
		"hosts[1].min_delay":   "follows ratelimit.min_delay",
		"hosts":                "file crawl.yaml:4",
	} {
		require.Equal(t, want, l.Origins[path].String(), path)
	}
	require.NoError(t, l.Config.Validate())
}

func TestFilesOnDisk(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "crawl.conf")
	require.NoError(t, os.WriteFile(path, []byte(`{"concurrency": 3}`), 0o600))
	l := mustLoad(t, Sources{File: path})
	require.Equal(t, 3, l.Config.Concurrency)
	require.Equal(t, "file "+path+":1", l.Origins["concurrency"].String())

	_, err := Load(Sources{File: filepath.Join(dir, "none.yaml"), Flags: []FlagValue{flag("depth", "x")}})
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorContains(t, err, "none.yaml")
	require.ErrorContains(t, err, "depth: ", "the other layers are checked all the same")

	_, err = Load(Sources{File: dir})
	require.ErrorContains(t, err, "is a directory")

	broken := errors.New("disk on fire")
	_, err = Load(Sources{Reader: failing{broken}})
	require.ErrorIs(t, err, broken)
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error)  { return 0, f.err }
func (f failing) Write([]byte) (int, error) { return 0, f.err }

func TestProblemsReadInOrder(t *testing.T) {
	ps := Problems{
		{Path: "hosts[10].match", Text: "c", Origin: Origin{"file", "f", 11}},
		{Path: "hosts[2].match", Text: "b", Origin: Origin{"file", "f", 12}},
		{Path: "depth", Text: "z", Origin: Origin{"file", "f", 9}},
		{Path: "depth", Text: "y", Origin: Origin{"file", "f", 10}},
		{Text: "whole"},
		{Path: "depth", Text: "a", Origin: Origin{"file", "f", 10}},
	}
	sortProblems(ps)
	require.EqualError(t, ps, "whole\ndepth: z [file f:9]\ndepth: a [file f:10]\ndepth: y [file f:10]\nhosts[10].match: c [file f:11]\nhosts[2].match: b [file f:12]")
	var p Problem
	require.ErrorAs(t, error(ps), &p)
	require.Equal(t, "whole", p.Text)
}

func TestOriginString(t *testing.T) {
	for want, o := range map[string]Origin{
		"default":                  {Source: "default"},
		"follows ratelimit.min":    {Source: "follows", Name: "ratelimit.min"},
		"file a b.yaml:3":          {"file", "a b.yaml", 3},
		"env CRAWL_X":              {Source: "env", Name: "CRAWL_X"},
		"flag --rate":              {Source: "flag", Name: "--rate"},
		`"file a\nb.yaml:1"`:       {"file", "a\nb.yaml", 1},
		`"file \x1b[31mred.yaml"`:  {Source: "file", Name: "\x1b[31mred.yaml"},
		`"file \u2028fake.yaml:2"`: {"file", "\u2028fake.yaml", 2},
		"":                         {},
	} {
		require.Equal(t, want, o.String())
	}
}
