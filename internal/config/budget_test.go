package config

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBudget(t *testing.T) {
	const noNumber = ` does not begin with a number of pages; give "N REGEXP" for so many of each host, or "N/crawl REGEXP" for so many of all hosts together`
	runCheck(t, budget, map[string]string{
		`500 ^https://[^/]+/calendar/`: "",
		"1 .":                          "",
		"1_000 .":                      "",
		"1000000000/crawl a b":         "",
		"5/host .":                     "",
		"1000000001 .":                 `"1000000001 ." is more than a crawl can have; give at most 1000000000 pages`,
		"0 /x":                         `"0 /x" leaves nothing; give a number of pages from 1 up, or leave such URLs out with scope.exclude (--exclude)`,
		"":                             `""` + noNumber,
		"-1 /x":                        `"-1 /x"` + noNumber,
		"/x 5":                         `"/x 5"` + noNumber,
		"1.5 /x":                       `"1.5 /x"` + noNumber,
		" 5 /x":                        `" 5 /x"` + noNumber,
		"5/ /x":                        `"5/ /x"` + noNumber,
		"5/day /x":                     `"5/day /x"` + noNumber,
		"5/crawl":                      "is empty and would match every URL; remove it or give a regular expression",
		"5  ":                          "is empty and would match every URL; remove it or give a regular expression",
		"5 (":                          `"(" is not a regular expression (missing closing ): "("); see the syntax of Go's regexp package`,
	})
}

func TestParseBudget(t *testing.T) {
	for text, want := range map[string]string{
		"5 /x":           "5 false /x",
		"5/host /x":      "5 false /x",
		"1_0/crawl  /x ": "10 true /x",
	} {
		b, err := ParseBudget(text)
		require.NoError(t, err)
		require.Equal(t, want, fmt.Sprint(b.MaxPages, b.PerCrawl, b.Match))
	}
}

// From wherever they come, budgets are kept in their order and named in messages.
func TestBudgetsAreLoaded(t *testing.T) {
	want := []string{`500 /cal/`, `9/crawl \?page=`}
	for _, src := range []Sources{
		yamlFile("scope: {budgets: ['500 /cal/', '9/crawl \\?page=']}"),
		{Env: []string{"CRAWL_SCOPE_BUDGETS=" + strings.Join(want, "\n")}},
		{Flags: flags("set", "scope.budgets="+want[0], "set", "scope.budgets="+want[1])},
	} {
		saved := first(t, src)
		require.Equal(t, want, saved.Scope.Budgets)
		require.Equal(t, want, mustLoad(t, Sources{Saved: saved}).Config.Scope.Budgets)
		require.Equal(t, []string{"1 x"}, mustLoad(t, Sources{Saved: saved, Flags: flags("set", "scope.budgets=1 x")}).Config.Scope.Budgets, "other ones when it goes on")
	}
	_, err := Load(Sources{Flags: flags("set", "scope.budgets=5 /x", "set", "scope.budgets=/x")})
	require.ErrorContains(t, err, `scope.budgets[1]: "/x" does not begin with a number of pages; `)
	require.ErrorContains(t, err, "[flag --set scope.budgets]")
}

// FuzzParseBudget asserts that what is accepted, written in the one way in which its parts
// can be, is the same budget.
func FuzzParseBudget(f *testing.F) {
	for _, s := range []string{"5 /x", "5/crawl a b", "1_0/host  .", "0 x", "5/ x", "5", "+5 x", "9999999999 x", "5 (?i)x\\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		b, err := ParseBudget(s)
		if err != nil {
			require.Nil(t, b.Match)
			return
		}
		per := perHost
		if b.PerCrawl {
			per = perCrawl
		}
		again, err := ParseBudget(fmt.Sprintf("%d/%s %s", b.MaxPages, per, b.Match))
		require.NoError(t, err)
		require.Equal(t, fmt.Sprint(b), fmt.Sprint(again))
		require.True(t, b.MaxPages >= 1 && b.MaxPages <= budgetMax)
	})
}
