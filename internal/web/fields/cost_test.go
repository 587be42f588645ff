package fields

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/lab/racetest"
	"github.com/treadlight/crawl/internal/web/dom"
	"github.com/treadlight/crawl/internal/web/effort"
)

// costly are expressions that compare many elements with many others.
var costly = []string{
	"css:p ~ p ~ p ~ p",
	"css:i ~ p ~ p ~ p ~ p",
	"css:p:nth-child(odd)",
	"css:p:nth-last-child(odd)",
	"css:p:nth-last-of-type(2n)",
	"css:p:only-of-type",
	"css:div div div div div p",
	"css::has(:has(:has(:has(none))))",
	"css:*:not(* * * * none)",
	"css:div:contains(none)",
	"css:div:matches(no*ne)",
	"css:p + p + p + none",
	"css::enabled, legend:disabled, input:disabled",
	"css:p:lang(en)",
	"css:div",
	"css:div@class",
	"xpath:count(//*//*//*)",
	"xpath://*//*//*",
	"xpath://*[.//*[.//*]]",
	"xpath://*/following::*/preceding::*",
	"xpath://*/ancestor::*/descendant::*",
	"xpath://p[last()]/following-sibling::p[position()=last()]",
	"xpath://*[contains(., 'none')]",
	"xpath://p[count(preceding-sibling::p) mod 2 = 1]",
	"xpath://p[. = //p]",
	"xpath://* | //*//*",
	"xpath:string-join(//*//*, ',')",
	"xpath:normalize-space(concat(/, /, /, //*[contains(.,'none')]))",
	"xpath:reverse(//*//*//*)",
	"xpath://@*[. = //@*]",
	"xpath:sum(//*//*)",
	"xpath://*[matches(., 'no*ne')]",
	"xpath:replace(replace(string(/), '[a-z]*', 'xyz$0'), 'x|y', '--')",
	"css:div:matches((a|b|w)*none{20})",
	"css:[class#=(x{50})]",
	"re:(a|b|x|w)*none{20}",
	"re:x.*none|x",
}

// shapes are pages of any size on which they do.
var shapes = map[string]func(size int) string{
	"flat": func(size int) string { return strings.Repeat("<p class=a>x", size/12) },
	"deep": func(size int) string {
		return strings.Repeat(strings.Repeat("<div>x", 400)+strings.Repeat("</div>", 400), max(1, size/4800))
	},
	"lists": func(size int) string { return strings.Repeat("<ul><li>a<li>b<ul><li>c</ul></ul>", size/33) },
	"text":  func(size int) string { return strings.Repeat("<div>"+strings.Repeat("word ", 50), size/255) },
	"forms": func(size int) string {
		return "<form><fieldset disabled><legend>" + strings.Repeat("<input><legend>", size/15)
	},
	"blanks": func(size int) string { return strings.Repeat("<p><!-- -->", size/11) },
}

// costs runs one rule on a page and returns what it took of the page's budget.
func costs(t *testing.T, page, line string) (used, most int64, spent bool) {
	t.Helper()
	r, err := Parse("x:all=" + line)
	require.NoError(t, err)
	set, err := New([]Rule{r})
	require.NoError(t, err, line)
	most = effort.Steps(len(page), math.MaxInt64)
	b := effort.New(context.Background(), most, nil, time.Time{})
	d := dom.Parse([]byte(page))
	d.Budget = b
	here := url(t, "http://h.test/")
	_, err = set.Extractor().Page(here, here, d)
	if b.Spent() {
		require.ErrorContains(t, err, "only a part of the page")
	}
	return b.Used(), most, b.Spent()
}

// overshoot is what may be taken beyond the budget: one node's text, and what lies between.
const overshoot = 10_000

// No rule takes more of a page than the page may cost, which is in proportion to its size.
func TestRulesCostNoMoreThanThePageMay(t *testing.T) {
	for name, shape := range shapes {
		for _, line := range costly {
			used, most, _ := costs(t, shape(3000), line)
			require.LessOrEqual(t, used, most+overshoot, "%s, %s", line, name)
			require.Positive(t, used, line)
		}
	}
	_, _, spent := costs(t, strings.Repeat("<div>x", 10_000), "xpath:count(//*//*//*//*)")
	require.True(t, spent, "it costs the square")
	_, _, spent = costs(t, shapes["flat"](30_000), "xpath://p[@class='a']")
	require.False(t, spent)
}

// What a rule looks at is charged: nodes, bytes of attributes, siblings, and each byte of a text as often as a
// pattern may look at it.
func TestWhatRulesDoIsCharged(t *testing.T) {
	const n, long = 100, 6400
	attr := `<p class="` + strings.Repeat("x", long) + `">`
	text := "<p>" + strings.Repeat("x", long)
	for _, tc := range []struct {
		line, page string
		least      int64
	}{
		{"css:none none", strings.Repeat("<br>", n), n},
		{"css:none none", strings.Repeat("<!-- -->", n), n},
		{"css:p[class=y]", strings.Repeat(attr, n), n * long / effort.Bytes},
		{"css:br:nth-child(odd)", strings.Repeat("<br>", n), 3 * n},
		{"css:br:nth-last-child(odd)", strings.Repeat("<br>", n), 4 * n},
		{"css:br:nth-of-type(odd)", strings.Repeat("<br>", n), 4 * n},
		{"css:p:contains(none)", strings.Repeat(text, n), n * long / effort.Bytes},
		{"css:p[class#=(y{50})]", attr, 5 * long},
		{"css:p:matches(y{50})", text, 5 * long},
		{"xpath://p[matches(., 'y{50}')]", text, 5 * long},
		{"xpath://p[matches(@class, 'y{50}')]", attr, 5 * long},
		{"xpath://none", strings.Repeat("<br>", n), n},
		{"xpath://br[@a]", strings.Repeat("<br>", n), 10 * n}, // three copies for each; the moves alone are 4*n
		{"xpath://p[.='y']", strings.Repeat(text, n), n * long / effort.Bytes},
	} {
		used, _, _ := costs(t, tc.page, tc.line)
		require.GreaterOrEqual(t, used, tc.least, tc.line)
	}
}

// A page cannot choose the size of what a function of XPath multiplies, nor a pattern.
func TestCallsWithArgumentsOfThePage(t *testing.T) {
	for expr, want := range map[string]string{
		"replace(//a, ',', //b)":                          "the arguments of replace() behind the first must be texts in quotes",
		"string-join(//a, //b)":                           "string-join()",
		"//p[matches(., @x)]":                             "matches()",
		"translate (//a, //b, 'x')":                       "translate()",
		"matches(//a, '(abcdefghijklm){900}')":            " instructions, more than 10000",
		"//p[matches(concat(., ')', ','), \"a'b\")]":      "",
		"replace(replace(//a, ',', ';'), 'x(', 'y')":      "",
		"string-join(//a[@b='replace(x, y)'], ', ')":      "",
		"count(//replace) + count(//x-translate[@y='z'])": "",
	} {
		_, err := callSteps(expr)
		if want == "" {
			require.NoError(t, err, expr)
			continue
		}
		require.ErrorContains(t, err, want, expr)
		_, _, err = compileXPath(expr)
		require.Error(t, err)
	}
}

func TestPatternsOfTooManyInstructions(t *testing.T) {
	const pattern = "(abcdefghijklm){900}"
	for _, r := range []Rule{
		{Name: "a", CSS: "a", Match: pattern},
		{Name: "a", CSS: "p:matches(" + pattern + ")"},
		{Name: "a", CSS: "p[x#=" + pattern + "]"},
		{Name: "a", XPath: "//a[matches(., '" + pattern + "')]"},
	} {
		require.ErrorContains(t, r.Check(), "use smaller repetitions", r)
	}
	steps, err := patternSteps(`^[a-z]+://(www\.)?x`)
	require.NoError(t, err)
	require.Positive(t, steps)
}

// What an expression was doing when the budget was spent is forgotten: the next page has its values.
func TestAnInterruptedExpressionStartsAnew(t *testing.T) {
	for _, line := range costly {
		r, err := Parse("x=" + line)
		require.NoError(t, err)
		set, err := New([]Rule{r})
		require.NoError(t, err)
		here, e := url(t, "http://h.test/"), set.Extractor()
		want, err := set.Extractor().Page(here, here, dom.Parse([]byte(shop)))
		require.NoError(t, err, line)
		d := dom.Parse([]byte(shapes["deep"](5000)))
		for steps := int64(1); steps < 100_000; steps *= 7 {
			d.Budget = effort.New(t.Context(), steps, nil, time.Time{})
			_, _ = e.Page(here, here, d) // what it finds is of no interest
			got, err := e.Page(here, here, dom.Parse([]byte(shop)))
			require.NoError(t, err, line)
			require.Equal(t, want, got, "%s after %d steps", line, steps)
		}
	}
}

// One call of a pattern cannot be interrupted: on a text that would take it long it is not made, and the page has
// cost enough. The texts of two elements are two calls.
func TestPatternsThatWouldTakeLong(t *testing.T) {
	const pattern = "[xy]{1000}z"
	steps, err := patternSteps(pattern)
	require.NoError(t, err)
	most := 1 << 21 / steps
	filler := strings.Repeat("<br>", 400_000) // so that the page may cost more than both
	lines := []string{"css:p:matches(" + pattern + ")", "css:p[title#=(" + pattern + ")]", "xpath://p[matches(., '" + pattern + "')]", "xpath://p[matches(@title, '" + pattern + "')]"}
	if racetest.Sample(t) {
		lines = lines[:1]
	}
	for _, line := range lines {
		element := func(bytes int) string {
			if strings.Contains(line, "title") {
				return "<p title=" + strings.Repeat("x", bytes) + "></p>"
			}
			return "<p>" + strings.Repeat("x", bytes-100) + "<b>" + strings.Repeat("x", 100) + "</b></p>"
		}
		_, _, spent := costs(t, element(most)+element(most)+filler, line)
		require.False(t, spent, line)
		used, _, spent := costs(t, element(most+1)+filler, line)
		require.True(t, spent, line)
		require.Positive(t, used, line)
	}
}

// What replace makes of a text may be longer, and is charged to those that read it.
func TestReplaceMakesTextsLonger(t *testing.T) {
	plain, err := callSteps("replace(., 'x', '')")
	require.NoError(t, err)
	longer, err := callSteps("replace(., 'x', 'xxxxxxxxx')")
	require.NoError(t, err)
	require.Equal(t, 10*plain, longer)
	expr := "."
	for range 7 {
		expr = "replace(" + expr + ", 'x', 'xxxxxxxxx')"
	}
	_, err = callSteps(expr)
	require.ErrorContains(t, err, "use shorter texts, or fewer calls")
}

// FuzzCost: a page of any kind costs rules no more than it may.
func FuzzCost(f *testing.F) {
	for _, shape := range shapes {
		for i := range costly {
			f.Add([]byte(shape(600)), uint8(i))
		}
	}
	f.Fuzz(func(t *testing.T, page []byte, rule uint8) {
		used, most, _ := costs(t, string(page), costly[int(rule)%len(costly)])
		require.LessOrEqual(t, used, most+overshoot+int64(len(page)))
	})
}
