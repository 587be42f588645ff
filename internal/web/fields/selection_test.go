package fields_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/html"

	"github.com/treadlight/crawl/internal/web/dom"
	"github.com/treadlight/crawl/internal/web/effort"
	"github.com/treadlight/crawl/internal/web/fields"
)

// A selection is what the rules of a user select, element by element, and ends with the budget of the page.
func TestSelection(t *testing.T) {
	page := dom.Parse([]byte(`<ul><li class=a>1<li class=b>2<li class=a><b>3</b></ul>`))
	texts := func(budget *effort.Budget, selector string, most int) (all []string) {
		s, err := fields.ParseSelector(selector)
		require.NoError(t, err)
		s.Each(page.Root, budget, func(n *html.Node) bool {
			all = append(all, dom.TextWithin(n, 10, nil))
			return len(all) < most
		})
		return all
	}
	require.Equal(t, []string{"1", "3"}, texts(nil, "li.a", 9))
	require.Equal(t, []string{"1"}, texts(nil, "li.a", 1))
	require.Empty(t, texts(effort.New(t.Context(), 1, nil, time.Time{}), "li.a", 9))
	_, err := fields.ParseSelector("li[")
	require.ErrorContains(t, err, "is no CSS selector")

	for expr, want := range map[string]string{
		"//li[b]": "3", "//li/@class": "a b a", "count(//li)": "3", "//li[1]/text()": "1", "string(//b)": "3", "/": "123",
		"//nothing": "", "//li[": "ERROR", "concat('a'": "ERROR",
	} {
		found, err := fields.Find(expr, page.Root, nil)
		require.Equal(t, want == "ERROR", err != nil, expr)
		var all []string
		for _, f := range found {
			if f.Node != nil {
				f.Value = dom.TextWithin(f.Node, 10, nil)
			}
			all = append(all, f.Value)
		}
		if err == nil {
			require.Equal(t, want, strings.ReplaceAll(strings.Join(all, " "), "1 2 3", "123"), expr)
		}
	}
	found, err := fields.Find("//li", page.Root, effort.New(t.Context(), 1, nil, time.Time{}))
	require.NoError(t, err)
	require.Empty(t, found)
}
