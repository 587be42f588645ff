package config

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func loadText(text string) (*Loaded, error) {
	return Load(Sources{File: "c.yaml", Reader: strings.NewReader(text)})
}

// Rules by name and in parts are the same rules as in a line.
func TestFieldsByName(t *testing.T) {
	l, err := loadText(`
extract:
  fields:
    title: css:h1
    price: {css: .price, attr: content, type: number}
    tags:
      xpath: >
        //a[@rel='tag']
        /@href
      all: yes
      match: /blog/
    author: ["css:meta[name=author]@content", {xpath: //address}]
`)
	require.NoError(t, err)
	want := []string{
		"title=css:h1", "price:number=css:.price@content", "tags:all=xpath://a[@rel='tag'] /@href url~/blog/",
		"author=css:meta[name=author]@content", "author=xpath://address",
	}
	require.Equal(t, want, l.Config.Extract.Fields)
	require.Equal(t, 5, l.Origins["extract.fields[1]"].Line)

	var b strings.Builder
	require.NoError(t, l.WriteYAML(&b))
	again, err := loadText(b.String())
	require.NoError(t, err)
	require.Equal(t, l.Config, again.Config, "what is written is read back the same")
}

// Everything that is wrong is told at once, with its path.
func TestFieldProblems(t *testing.T) {
	_, err := loadText(`
extract:
  fields:
    a: {css: "p["}
    b: {xpath: "//p[", type: money}
    c: {csss: p}
    d: {css: p, all: maybe}
    e: p
    f: [css:p, {css: [p]}]
    g: {css: p, xpath: //p}
    "h i": css:p
    j:
    a: css:p
`)
	require.Error(t, err)
	for _, want := range []string{
		`extract.fields.a.css: "p[" is no CSS selector`, "c.yaml:4",
		`extract.fields.b.type: "money" is no type of a value; give one of text, html, number, url`,
		"extract.fields.c.csss: is not a setting; did you mean extract.fields.c.css?",
		`extract.fields.d.all: "maybe" is neither`,
		`extract.fields.e: "p" begins with neither css: nor xpath:`,
		"extract.fields.f[1].css: is a list; give a text",
		"extract.fields.g.css: give one of css and xpath",
		`"h i" is no name of a field`,
		"extract.fields.j: is nothing; give a rule",
		"extract.fields.a: is set already on line 4",
	} {
		require.ErrorContains(t, err, want)
	}

	_, err = Load(Sources{Flags: []FlagValue{{Name: "field", Value: "a:b:all=css:p"}, {Name: "field", Value: "x=css:["}, {Name: "field", Value: "x"}}})
	require.ErrorContains(t, err, `"b" is no type of a value`)
	require.ErrorContains(t, err, `"[" is no CSS selector`)
	require.ErrorContains(t, err, `"x" has no =`)
	_, err = Load(Sources{Flags: []FlagValue{{Name: "field", Value: "x=xpath:substring(//p,'a')@b"}}})
	require.ErrorContains(t, err, "is no XPath expression")
}

func TestTooManyFields(t *testing.T) {
	c := Default()
	for range 201 {
		c.Extract.Fields = append(c.Extract.Fields, "a=css:p")
	}
	require.ErrorContains(t, c.Validate(), "extract.fields: has 201 rules; give at most 200")
}
