package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestFleet(t *testing.T) {
	env := func(vars ...string) error {
		_, err := Load(Sources{Env: vars})
		return err
	}
	require.NoError(t, env("CRAWL_FLEET_REDIS=rediss://u:${PW}@r.test:6380", "CRAWL_FLEET_JOB=j", "CRAWL_FLEET_WORKER=w-1.a"))
	for want, vars := range map[string][]string{
		"fleet.job: is empty, and fleet.redis is not":             {"CRAWL_FLEET_REDIS=redis://r.test:1"},
		"fleet.redis: is empty, and fleet.job is not":             {"CRAWL_FLEET_JOB=j"},
		"is no URL of a Redis":                                    {"CRAWL_FLEET_REDIS=http://u:secret@r.test", "CRAWL_FLEET_JOB=j"},
		"where a secret stood":                                    {"CRAWL_FLEET_REDIS=redis://REDACTED@r.test", "CRAWL_FLEET_JOB=j"},
		"is no name: use 1 to 64":                                 {"CRAWL_FLEET_REDIS=redis://r.test:1", "CRAWL_FLEET_JOB=a b"},
		"\"..\" is no name":                                       {"CRAWL_FLEET_REDIS=redis://r.test:1", "CRAWL_FLEET_JOB=j", "CRAWL_FLEET_WORKER=.."},
		"and a crawl of several processes is kept in fleet.redis": {"CRAWL_FLEET_REDIS=redis://r.test:1", "CRAWL_FLEET_JOB=j", "CRAWL_STATE_DIR=s"},
		"is more than the 1,000,000,000 bytes a second":           {"CRAWL_FLEET_REDIS=redis://r.test:1", "CRAWL_FLEET_JOB=j", "CRAWL_RATELIMIT_GLOBAL_BYTES=1GiB"},
		"counts the URLs of one process, and fleet.redis":         {"CRAWL_FLEET_REDIS=redis://r.test:1", "CRAWL_FLEET_JOB=j", "CRAWL_SCOPE_BUDGETS=5/crawl x"},
	} {
		err := env(vars...)
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "secret@")
	}
	loaded, err := Load(Sources{Env: []string{"CRAWL_FLEET_REDIS=redis://u:secret@r.test:1", "CRAWL_FLEET_JOB=j"}})
	require.NoError(t, err)
	var b strings.Builder
	require.NoError(t, loaded.WriteYAML(&b))
	require.NotContains(t, b.String(), "secret@")
	require.Contains(t, b.String(), "REDACTED@r.test:1")
}

func TestTerms(t *testing.T) {
	a := Default()
	require.Equal(t, "host", a.Terms()["scope.mode"])
	require.NotContains(t, a.Terms(), "scope.include", "what is empty is no term")
	b := a
	b.Scope.Exclude, b.RateLimit.MaxRPS, b.Output.Path, b.Fetch.UserAgent = []string{"x", "y"}, 3, "o", "u"
	terms := b.Terms()
	require.Equal(t, "x, y", terms["scope.exclude"])
	delete(terms, "scope.exclude")
	require.Equal(t, a.Terms(), terms, "how fast, under what name and where to is each process's own")

	budgets := map[string]string{
		"max_pages": "7", "max_time": "1h", "ratelimit.global_rps": "2.5", "ratelimit.ip_rps": "3", "ratelimit.site_rps": "4",
		"ratelimit.global_concurrency": "5", "ratelimit.global_bytes": "1MiB",
	}
	for path := range budgets {
		require.NotContains(t, terms, path, "no bound is no term")
	}
	b.MaxPages, b.MaxTime, b.RateLimit.GlobalRPS, b.RateLimit.IPRPS, b.RateLimit.SiteRPS = 7, time.Hour, 2.5, 3, 4
	b.RateLimit.GlobalConcurrency, b.RateLimit.GlobalBytes = 5, 1<<20
	for path, want := range budgets {
		require.Equal(t, want, b.Terms()[path], "what bounds all of them is agreed on")
	}
}

// Whatever characters a secret has, it is taken as it is, from a variable or a file, and no
// error nor what is printed of the settings has it.
func TestRedisClient(t *testing.T) {
	const secret = "p@ss/w#1 %+:?"
	env := func(name string) (string, bool) {
		return map[string]string{"PW": secret, "URL": "redis://u:x@h.test:1"}[name], name != "NONE"
	}
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	o, err := Fleet{Redis: "rediss://me:${PW}@r.test:6380/2"}.Client(env)
	require.NoError(t, err)
	require.Equal(t, []any{"me", secret, []string{"r.test:6380"}, 2, "r.test"}, []any{o.Username, o.Password, o.InitAddress, o.SelectDB, o.TLSConfig.ServerName})
	o, err = Fleet{Redis: "${URL}"}.Client(env)
	require.NoError(t, err)
	require.Equal(t, "x", o.Password)
	o, err = Fleet{Redis: "rediss://me@s.test?master_set=m&addr=t.test&sentinel_password=${URL}", PasswordFile: file("pw", secret+"\n")}.Client(env)
	require.NoError(t, err)
	require.Equal(t, []any{secret, "m", "redis://u:x@h.test:1"}, []any{o.Password, o.Sentinel.MasterSet, o.Sentinel.Password})
	require.Empty(t, o.TLSConfig.ServerName+o.Sentinel.TLSConfig.ServerName, "each server is held to its own name")

	for want, f := range map[string]Fleet{
		"takes the variable NONE, which is not set":       {Redis: "redis://:${NONE}@h.test"},
		"is not one line with a password":                 {Redis: "redis://h.test", PasswordFile: file("two", secret+"\n"+secret)},
		"fleet.password_file: open ":                      {Redis: "redis://h.test", PasswordFile: filepath.Join(dir, "gone")},
		"is larger than 4096 bytes: is it the right file": {Redis: "redis://h.test", PasswordFile: file("large", strings.Repeat("x", 5000))},
		"has no certificate: give a PEM file":             {Redis: "rediss://h.test", CAFile: file("pem", secret)},
		"let it begin with rediss://":                     {Redis: "redis://:${PW}@h.test", CAFile: file("pem", secret)},
	} {
		_, err := f.Client(env)
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), secret)
	}
	require.Equal(t, "redis://REDACTED@h.test?sentinel_password=REDACTED&x=1", redactRedis("redis://a:b@h.test?sentinel_password=c&x=1"))
	require.Equal(t, "redis://h.test?sentinel_password=${PW}", redactRedis("redis://h.test?sentinel_password=${PW}"))
}
