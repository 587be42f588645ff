package binder_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/resilience"
	"github.com/treadlight/crawl/resilience/binder"
)

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
	models, err := binder.LoadNamed([]byte(settings), "Clients")
	require.NoError(t, err)
	require.Equal(t, map[string]*binder.Model{"search": timeout(3), "payments": timeout(4)}, models)

	var asked []string
	r, err := binder.BindAll(models, func(name string) binder.Options[string] {
		asked = append(asked, name)
		return binder.Options[string]{Deps: binder.Deps{Name: name}}
	})
	require.NoError(t, err)
	require.Equal(t, []string{"payments", "search"}, r.Names())
	require.Equal(t, r.Names(), asked)
	p, err := resilience.Lookup[string](r, "search")
	require.NoError(t, err)
	v, err := p.Execute(t.Context(), func(context.Context) (string, error) { return "page", nil })
	require.NoError(t, err)
	require.Equal(t, "page", v)
	require.NoError(t, r.Close())
	_, err = p.Execute(t.Context(), func(context.Context) (string, error) { return "page", nil })
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
