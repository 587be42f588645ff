package config

import (
	"strings"
	"testing"

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
		"max_pages: counts the pages of one process":              {"CRAWL_FLEET_REDIS=redis://r.test:1", "CRAWL_FLEET_JOB=j", "CRAWL_MAX_PAGES=5"},
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
}
