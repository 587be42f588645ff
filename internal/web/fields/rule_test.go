package fields

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParse(t *testing.T) {
	for line, want := range map[string]Rule{
		"price=css:.price":                               {Name: "price", CSS: ".price"},
		"price=css: .price ":                             {Name: "price", CSS: ".price"},
		"price=css:.price@content":                       {Name: "price", CSS: ".price", Attr: "content"},
		"price:number=css:.price":                        {Name: "price", CSS: ".price", Type: Number},
		"tags:all=css:a[rel=tag]":                        {Name: "tags", CSS: "a[rel=tag]", All: true},
		"links:url:all=css:nav a@href url~^https://a/b=": {Name: "links", CSS: "nav a", Attr: "href", Type: URL, All: true, Match: "^https://a/b="},
		`mail=css:a[href="mailto:x@y.z"]`:                {Name: "mail", CSS: `a[href="mailto:x@y.z"]`},
		"author=xpath://meta[@name='author']/@content":   {Name: "author", XPath: "//meta[@name='author']/@content"},
		"n=xpath:count(//a) url~/x/":                     {Name: "n", XPath: "count(//a)", Match: "/x/"},
		"body:html=css:article":                          {Name: "body", CSS: "article", Type: HTML},
		`mail:all=re:[\w.+-]+@[\w.-]+ url~/team/`:        {Name: "mail", RE: `[\w.+-]+@[\w.-]+`, All: true, Match: "/team/"},
		"url=page url~/p/":                               {Name: "url", Page: true, Match: "/p/"},
		"größe=css:b":                                    {Name: "größe", CSS: "b"},
	} {
		got, err := Parse(line)
		require.NoError(t, err, line)
		require.Equal(t, want, got, line)
		require.NoError(t, got.Check(), line)
		back, err := Parse(got.String())
		require.NoError(t, err, line)
		require.Equal(t, got, back, line)
	}
}

func TestParseTellsWhatToWrite(t *testing.T) {
	for line, want := range map[string]string{
		"price":              "has no =; write NAME=css:SELECTOR",
		"price=.price":       "begins with none of css:, xpath:, json: and re:",
		"price:money=css:.p": `"money" is no type of a value; give one of text, html, number, url, date, or all`,
	} {
		_, err := Parse(line)
		require.ErrorContains(t, err, want, line)
	}
}

// Each part that is wrong is one problem with its key, all of them at once.
func TestCheck(t *testing.T) {
	for name, c := range map[string]struct {
		rule Rule
		want map[string]string
	}{
		"nothing": {Rule{}, map[string]string{"name": "no name of a field", "css": "give one of css, xpath, json and re"}},
		"everything": {
			Rule{Name: "a b", CSS: "p[", Attr: "1", Match: "("},
			map[string]string{"name": `"a b"`, "css": "is no CSS selector", "attr": `"1" is no name`, "match": "is not a regular expression"},
		},
		"both":                 {Rule{Name: "a", CSS: "p", XPath: "//p"}, map[string]string{"css": "give one of css, xpath, json and re"}},
		"a regular expression": {Rule{Name: "a", RE: "(", Type: HTML}, map[string]string{"re": "is not a regular expression", "type": "html is for elements"}},
		"XPath as CSS":         {Rule{Name: "a", CSS: "//p"}, map[string]string{"css": "for XPath write xpath:"}},
		"pseudo-element":       {Rule{Name: "a", CSS: "p::text"}, map[string]string{"css": "write SELECTOR@ATTRIBUTE"}},
		"pseudo-class":         {Rule{Name: "a", CSS: "p:text"}, map[string]string{"css": "is no CSS selector"}},
		"attr of XPath":        {Rule{Name: "a", XPath: "//p", Attr: "id"}, map[string]string{"attr": "//p/@id"}},
		"attr as HTML":         {Rule{Name: "a", CSS: "p", Attr: "id", Type: HTML}, map[string]string{"type": "an attribute is none"}},
		"XPath":                {Rule{Name: "a", XPath: "//p["}, map[string]string{"xpath": "is no XPath expression"}},
		"XPath function":       {Rule{Name: "a", XPath: "nothing(//p)"}, map[string]string{"xpath": "is no XPath expression"}},
		"XPath argument":       {Rule{Name: "a", XPath: "substring(//p, 'x')"}, map[string]string{"xpath": "is no XPath expression"}},
		"the mark":             {Rule{Name: "a", CSS: "p url~x"}, map[string]string{"css": "leave out the space"}},
		"a long name":          {Rule{Name: strings.Repeat("a", 65), CSS: "p"}, map[string]string{"name": "up to 64 letters"}},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.rule.Check()
			require.Error(t, err)
			joined, ok := err.(interface{ Unwrap() []error })
			require.True(t, ok)
			got := map[string]string{}
			for _, e := range joined.Unwrap() {
				p, ok := errors.AsType[*Problem](e)
				require.True(t, ok, e)
				require.Empty(t, got[p.Key], "one problem for each part")
				got[p.Key] = p.Text
			}
			require.Len(t, got, len(c.want), err)
			for key, text := range c.want {
				require.Contains(t, got[key], text)
			}
		})
	}
}

func TestNewReportsAllRules(t *testing.T) {
	_, err := New([]Rule{{Name: "a", CSS: "["}, {Name: "b", CSS: "p"}, {Name: "c", XPath: "//["}})
	require.ErrorContains(t, err, "a: css: ")
	require.ErrorContains(t, err, "c: xpath: ")
	_, err = New(make([]Rule, MaxRules+1))
	require.ErrorContains(t, err, "201 rules are more than 200")
}

// FuzzParse: a rule that can be used is the same when it is written and read again.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"a=css:b@c", "a:number:all=xpath://b/@c url~d", "a=css:b[c='@d']", "a=css:@b", "a:all:all=css:b@c@d"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, line string) {
		r, err := Parse(line)
		if err != nil || r.Check() != nil {
			return
		}
		back, err := Parse(r.String())
		require.NoError(t, err)
		require.Equal(t, r, back, line)
	})
}
