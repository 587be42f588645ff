package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func everything() Sources {
	src := yamlFile(`
depth: 3
max_time: 1h30m
seeds: {file: "null"}
scope: {mode: any, include: ['^https://a\.test/"x"\\', "# no comment", "- : {", "<&>"], exclude: ["é日"]}
ratelimit: {enabled: false, min_delay: 1500ms}
hosts:
  - {match: "*.a.test", max_rps: 0.5}
  - {match: "b.test:8080", min_delay: 0, initial_rps: 12.25}
  - {match: c.test, cap: {kind: concurrency, permits: 3}, quota: {permits: 9, per: 1h}, max_in_flight: 1}
  - {match: d.test, cap: {kind: sliding-window, permits: 3, per: 1500ms}, quota: {kind: sliding-window, permits: 9, per: 1h}}
fetch:
  headers: ["Accept-Language: en, de;q=0.5", "Authorization: Bearer hunter2", "Cookie: sid=hunter2"]
  max_body: 1.5MiB
output: {path: "true", record: [text, no-links]}
log: {level: debug}
resilience: {circuit_breaker: {circuit_name: "a # b: 'c'"}, Timeout: {Seconds: 0.1}, retry: {max_retries: 2, backoff: {type: constant, base_ms: 1500}}}
`)
	src.Env = []string{"CRAWL_FETCH_CONTACT=bot@example.com", "CRAWL_RATELIMIT_MAX_RPS=33.3"}
	src.Flags = []FlagValue{flag("no-robots", "true"), flag("stats", "~"), flag("max-pages", "1000000000000")}
	return src
}

// asPrinted is a configuration with what printing takes away from it.
func asPrinted(c Config) Config {
	c.Fetch.Headers = slices.Clone(c.Fetch.Headers)
	for i, h := range c.Fetch.Headers {
		c.Fetch.Headers[i] = redactHeader(h)
	}
	return c
}

func TestWhatIsWrittenLoadsTheSame(t *testing.T) {
	for _, src := range []func() Sources{func() Sources { return Sources{} }, everything} {
		l := mustLoad(t, src())
		var y, j bytes.Buffer
		require.NoError(t, l.WriteYAML(&y))
		require.NotContains(t, y.String(), "hunter2")
		fromYAML := mustLoad(t, yamlFile(y.String()))
		require.Equal(t, asPrinted(l.Config), fromYAML.Config)
		for path := range l.Origins {
			if v := path != "hosts" || len(l.Config.Hosts) > 0; v {
				require.Equal(t, "file", fromYAML.Origins[path].Source, "origin of %s", path)
			}
		}

		require.NoError(t, l.WriteJSON(&j))
		require.NotContains(t, j.String(), "hunter2")
		var parts struct {
			Config   json.RawMessage
			Origins  map[string]string
			Warnings []string
		}
		require.NoError(t, json.Unmarshal(j.Bytes(), &parts))
		if len(l.Config.Hosts) > 0 {
			require.Contains(t, string(parts.Config), `"base_ms": 1500`)
			require.Contains(t, string(parts.Config), "\"quota\": {\n          \"kind\": \"fixed-window\",\n          \"permits\": 9,\n          \"per\": \"1h\"\n        }")
		}
		require.Equal(t, len(l.Origins), len(parts.Origins))
		require.NotNil(t, parts.Warnings)
		fromJSON := mustLoad(t, Sources{File: "c.json", Reader: bytes.NewReader(parts.Config)})
		require.Equal(t, asPrinted(l.Config), fromJSON.Config)
	}
}

func TestWriteYAMLShowsOrigins(t *testing.T) {
	var b strings.Builder
	require.NoError(t, mustLoad(t, everything()).WriteYAML(&b))
	lines := strings.Split(b.String(), "\n")
	for _, want := range []string{
		`concurrency: 64                             # default`,
		`depth: 3                                    # file crawl.yaml:2`,
		`max_time: 1h30m                             # file crawl.yaml:3`,
		`scope:`,
		`  include:`,
		`    - "^https://a\\.test/\"x\"\\\\"         # file crawl.yaml:5`,
		`    - "<&>"                                 # file crawl.yaml:5`,
		`  enabled: false                            # flag --no-robots`,
		`  strategy: "off"                           # file crawl.yaml:6`,
		`  max_rps: 33.3                             # env CRAWL_RATELIMIT_MAX_RPS`,
		`  - match: "*.a.test"                       # file crawl.yaml:8`,
		`    initial_rps: 0.5                        # follows hosts[0].max_rps`,
		`    min_delay: 1.5s                         # follows ratelimit.min_delay`,
		`    - "Authorization: REDACTED"             # file crawl.yaml:13`,
		`  max_body: 1536KiB                         # file crawl.yaml:14`,
		`  path: "~"                                 # flag --stats`,
		`    - "no-links"                            # file crawl.yaml:15`,
		`  level: debug                              # file crawl.yaml:16`,
	} {
		require.Contains(t, lines, want)
	}
	require.NotContains(t, b.String(), enabledPath)
	for _, part := range []string{`    cap:
      kind: concurrency                     # file crawl.yaml:10
      permits: 3                            # file crawl.yaml:10
`, `resilience:                                 # file crawl.yaml:17
  retry:
    max_retries: 2
    retry_forever: false
    backoff:
      type: "constant"
      base_ms: 1500
      max_delay_ms: 30000
      use_jitter: true
  timeout:
    seconds: 0.1
`} {
		require.Contains(t, b.String(), part)
	}
	b.Reset()
	require.NoError(t, mustLoad(t, Sources{}).WriteYAML(&b))
	require.Contains(t, b.String(), "resilience: {}                              # default\n")
}

func TestConfigLogsWithoutSecrets(t *testing.T) {
	l := mustLoad(t, everything())
	for _, handler := range []func(*bytes.Buffer) slog.Handler{
		func(b *bytes.Buffer) slog.Handler { return slog.NewTextHandler(b, nil) },
		func(b *bytes.Buffer) slog.Handler { return slog.NewJSONHandler(b, nil) },
	} {
		var b bytes.Buffer
		slog.New(handler(&b)).Info("start", "config", l.Config)
		require.NotContains(t, b.String(), "hunter2")
		require.Contains(t, b.String(), "REDACTED")
		require.Contains(t, b.String(), "concurrency")
		require.Contains(t, b.String(), `max_retries`)
	}
}

func TestWritersReportErrors(t *testing.T) {
	full := failing{errors.New("disk full")}
	l := mustLoad(t, Sources{})
	require.ErrorIs(t, l.WriteYAML(full), full.err)
	require.ErrorIs(t, l.WriteJSON(full), full.err)
	require.ErrorIs(t, Reference(full), full.err)
}

func TestFlagsAreComplete(t *testing.T) {
	byName := map[string]Flag{}
	for _, f := range Flags() {
		byName[f.Name] = f
	}
	require.Equal(t, Flag{
		Name: "max-rate", Path: "ratelimit.max_rps", Arg: "rate", Default: "10",
		Help: "highest requests per second to a host; lowers initial_rps if that is not set",
	}, byName["max-rate"])
	require.Equal(t, Flag{
		Name: "no-robots", Path: "robots.enabled", Arg: "bool", Default: "false",
		Help: "do not request robots.txt; for your own servers", Switch: true,
	}, byName["no-robots"])
	require.True(t, byName["robots"].Hidden)
	require.Equal(t, "true", byName["robots"].Default)
	require.True(t, byName["no-insecure"].Hidden)
	require.True(t, byName["delay"].Hidden)
	require.Empty(t, byName["delay"].Shorthand)
	require.True(t, byName["header"].Repeat)
	require.Equal(t, "H", byName["header"].Shorthand)
	require.Contains(t, byName["scope"].Help, "host|domain|prefix|any: ")
	for _, name := range []string{
		"strategy", "input-file", "depth", "concurrency", "rate", "max-rate", "min-delay", "global-rate",
		"timeout", "retries", "max-pages", "max-pages-per-host", "max-time", "remember", "no-traps", "no-sitemaps",
		"scope", "include", "exclude", "no-robots", "user-agent", "contact", "header", "output", "format", "record",
		"stats", "progress", "quiet", "verbose", "insecure", "state", "listen", "warc", "set",
	} {
		require.Contains(t, byName, name, "promised to users")
		require.False(t, byName[name].Hidden, name)
		require.NotEmpty(t, byName[name].Help, name)
	}
	for _, f := range Flags() {
		if !f.Switch && f.Default != "" {
			mustLoad(t, Sources{Flags: []FlagValue{{f.Name, f.Default}}})
		}
	}
}

// FuzzLoad asserts that no input makes Load panic, that every error is a list of
// problems with something to read, and that what is printed loads to the same values.
func FuzzLoad(f *testing.F) {
	f.Add([]byte("concurrency: 3\nhosts: [{match: a.test, max_rps: 0.5}]"), "f.yaml", "CRAWL_DEPTH=1", uint8(3), "5")
	f.Add([]byte("hosts: [{match: a.test, max_rate: 2, cap: {kind: leaky-bucket, permits: 3, per: 1s}, quota: {permits: 9, per: 1h}, max_in_flight: 1}]"),
		"f.yaml", "CRAWL_RATELIMIT_GLOBAL_BYTES=1MiB", uint8(3), "5")
	f.Add([]byte(everyPolicy), "f.yaml", "CRAWL_RATELIMIT_HALF_OPEN_PROBES=3", uint8(3), "5")
	f.Add([]byte("resilience: {Resilience: {circuit_breaker: {CircuitName: 0x1, break_seconds: 86400}}}"), "f.yaml", "", uint8(3), "5")
	f.Add([]byte(`{"fetch": {"headers": ["Cookie: x"]}}`), "f.json", "CRAWL_SCOPE_INCLUDE=a\nb", uint8(20), "a.*")
	f.Add([]byte("ratelimit:\n  max_rps: 1_0.5\n  enabled: off\n"), "f", "CRAWL_LOG_LEVEL=error", uint8(40), "true")
	f.Add([]byte("? [a]\n: &x {<<: *x}\n...\n---\n!!map {}"), "", "=", uint8(255), "\x00")
	f.Add([]byte("\xff\xfea\x00"), "f.yml", "CRAWL_X", uint8(0), "1e400")
	if data, err := os.ReadFile("file_test.go"); err == nil {
		f.Add(data, "f.yaml", "", uint8(1), "")
	}
	flags := Flags()
	f.Fuzz(func(t *testing.T, data []byte, name, env string, pick uint8, value string) {
		given := flags[int(pick)%len(flags)]
		l, err := Load(Sources{
			File: name, Reader: bytes.NewReader(data), Env: []string{env},
			Flags: []FlagValue{{given.Name, value}, {value, env}}[:1+int(pick)%2],
		})
		if err != nil {
			var ps Problems
			if !errors.As(err, &ps) || len(ps) == 0 || ps[0].Text == "" {
				t.Fatalf("Load = %v, want problems", err)
			}
			return
		}
		var b bytes.Buffer
		if err := l.WriteYAML(&b); err != nil {
			t.Fatal(err)
		}
		again, err := Load(Sources{File: "again.yaml", Reader: &b})
		if err != nil {
			t.Fatalf("printed configuration is refused: %v", err)
		}
		require.Equal(t, asPrinted(l.Config), again.Config)
		if err := again.Config.Validate(); err != nil {
			t.Fatalf("Validate after Load: %v", err)
		}
	})
}
