package config

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A setting that was retired is an error in every layer, which says what to write.
func TestRetiredSettings(t *testing.T) {
	for _, g := range goneSettings {
		require.Nil(t, find(fields(), g.path), g.path)
		if name := g.successor(); name != "" {
			require.NotNil(t, find(fields(), name), "%s has the successor %s", g.path, name)
		}
		for from, src := range map[string]Sources{
			"file crawl.yaml:2":    yamlFile(section(g.path) + ":\n  " + leaf(g.path) + ": 1\n"),
			"env " + envOf(g.path): {Env: []string{envOf(g.path) + "=1"}},
			"flag --set " + g.path: {Flags: flags("set", g.path+"=1")},
		} {
			require.Equal(t, []string{g.path + ": " + g.says() + " [" + from + "]"}, problems(t, src))
		}
		for flag := range strings.FieldsSeq(g.flags) {
			require.Equal(t, []string{"--" + flag + " " + g.says() + " [flag --" + flag + "]"}, problems(t, Sources{Flags: flags(flag, "1")}))
		}
	}
}

// A crawl that was begun when there were such settings goes on as it was begun.
func TestRetiredSettingsOfSavedCrawls(t *testing.T) {
	c, err := LoadSaved(t.TempDir(), `
output: {text: true, links: false, body: false, digest: true, record: [metadata]}
extract: {metadata: false, main_text: true}
scope: {canonical: [sort], drop_params: [sid, "utm_*"]}
access: {ipv4: false, ipv6: true}
log: {quiet: true, verbose: false}
traps: {max_depth: 7}
`)
	require.NoError(t, err)
	require.Equal(t, []string{"metadata", "text", "no-links", "main-text"}, c.Output.Record)
	require.Equal(t, []string{"sort", "drop:sid", "drop:utm_*"}, c.Scope.Canonical)
	require.Equal(t, "ipv6", c.Access.Family)
	require.Equal(t, Default().Log, c.Log)

	_, err = LoadSaved(t.TempDir(), "output: {texts: true}")
	require.ErrorContains(t, err, "output.texts: is not a setting")
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
	require.LessOrEqual(t, len(fields())+len(hostFields())-blueprint, 110, "settings beside those of the blueprints")
	shown := 1 // --config
	for _, f := range Flags() {
		if !f.Hidden {
			shown++
		}
	}
	require.LessOrEqual(t, shown, 48, "flags of a crawl")
}
