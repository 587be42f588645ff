package config

import (
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestProblemsReadInOrder(t *testing.T) {
	ps := Problems{
		{Path: "hosts[10].match", Text: "c"},
		{Path: "hosts[2].match", Text: "b"},
		{Path: "depth", Text: "z", Origin: Origin{"file", "f", 9}},
		{Path: "depth", Text: "y", Origin: Origin{"file", "f", 10}},
		{Text: "whole"},
		{Path: "depth", Text: "a", Origin: Origin{"file", "f", 10}},
	}
	ps.sort()
	require.EqualError(t, ps, "whole\ndepth: z [file f:9]\ndepth: a [file f:10]\ndepth: y [file f:10]\nhosts[2].match: b\nhosts[10].match: c")
	var p Problem
	require.ErrorAs(t, error(ps), &p)
	require.Equal(t, "whole", p.Text)
}

func TestComparePaths(t *testing.T) {
	want := []string{"", "a", "a.b", "a1", "a2", "a2b", "a10", "b", "hosts[1]", "hosts[1].x", "hosts[12]"}
	got := slices.Clone(want)
	slices.Reverse(got)
	slices.SortFunc(got, comparePaths)
	require.Equal(t, want, got)
}

func TestProblemKeepsItsCause(t *testing.T) {
	cause := errors.New("cause")
	require.ErrorIs(t, Problems{{Text: "x", cause: cause}}, cause)
	require.NotErrorIs(t, Problems{{Text: "x"}}, cause)
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
