package config

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestProblemsReadInOrder(t *testing.T) {
	ps := Problems{
		{Path: "hosts[10].match", Text: "c", Origin: Origin{"file", "f", 11}},
		{Path: "hosts[2].match", Text: "b", Origin: Origin{"file", "f", 12}},
		{Path: "depth", Text: "z", Origin: Origin{"file", "f", 9}},
		{Path: "depth", Text: "y", Origin: Origin{"file", "f", 10}},
		{Text: "whole"},
		{Path: "depth", Text: "a", Origin: Origin{"file", "f", 10}},
	}
	ps.sort()
	require.EqualError(t, ps, "whole\ndepth: z [file f:9]\ndepth: a [file f:10]\ndepth: y [file f:10]\nhosts[10].match: c [file f:11]\nhosts[2].match: b [file f:12]")
	var p Problem
	require.ErrorAs(t, error(ps), &p)
	require.Equal(t, "whole", p.Text)
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
