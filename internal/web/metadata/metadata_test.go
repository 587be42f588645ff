package metadata

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/web/dom"
	"github.com/treadlight/crawl/internal/web/effort"
)

func read(page string) Metadata { return Read(dom.Parse([]byte(page))) }

func TestProperties(t *testing.T) {
	m := read(`<head><meta property="og:title" content=" A  title "><meta name=TWITTER:card content=summary>
<meta property="article:tag" content=a><meta property="x og:type" content=article><meta name=description content=no>
<meta property="og:empty" content=" "><meta property="og:none"><meta content=x>
<template><meta property="og:hidden" content=no></template>
</head><body><meta property="article:tag" content="b"><svg><meta property="og:svg" content=no></svg>`)
	require.Equal(t, []Property{
		{"og:title", []string{"A title"}},
		{"twitter:card", []string{"summary"}},
		{"article:tag", []string{"a", "b"}},
		{"og:type", []string{"article"}},
		{"og:svg", []string{"no"}}, // the parser takes meta out of svg
	}, m.Properties)
	require.Zero(t, m.Dropped)
}

func TestJSONLD(t *testing.T) {
	block := func(s string) string { return `<script type="application/ld+json">` + s + `</script>` }
	for in, want := range map[string]string{
		`{"@type": "Article"}`:                      `{"@type":"Article"}`,
		"\n [ {\"a\" : 1} ,\n 2 ] \n":               `[{"a":1},2]`,
		"<!-- {\"a\":1} -->":                        `{"a":1}`,
		"//<![CDATA[\n{\"a\":1}\n//]]>":             `{"a":1}`,
		"/*<![CDATA[*/ {\"a\":1} /*]]>*/":           `{"a":1}`,
		`{"a":1};`:                                  `{"a":1}`,
		"{\"a\":\"two\nlines\tand \\\" a quote\"}":  `{"a":"two\nlines\tand \" a quote"}`,
		`{"a":[1,2,],}`:                             `{"a":[1,2]}`,
		`{"a":",]"}`:                                `{"a":",]"}`,
		`{&quot;a&quot;:&quot;b &amp;amp; c&quot;}`: `{"a":"b &amp; c"}`,
		`{"a":"</p>"}`:                              `{"a":"</p>"}`,
		`{"a":"é\u00e9"}`:                           `{"a":"é\u00e9"}`,
	} {
		m := read(block(in))
		require.Equal(t, []string{want}, m.JSONLD, in)
		require.Zero(t, m.InvalidJSONLD, in)
	}
	for _, in := range []string{`{"a":}`, `{a:1}`, `"text"`, `1`, `{"a":1} {"b":2}`, `{"a":"unclosed`, "<!--", `{"a":"\`, strings.Repeat("[", 20_000)} {
		m := read(block(in))
		require.Empty(t, m.JSONLD, in)
		require.Equal(t, 1, m.InvalidJSONLD, in)
	}
	m := read(`<script type=" Application/LD+JSON ; charset=utf-8">{}</script><script type="application/json">{}</script>` +
		`<script>{}</script>` + block(" ") + `<body><div>` + block(`[]`))
	require.Equal(t, []string{"{}", "[]"}, m.JSONLD)
	require.Zero(t, m.InvalidJSONLD)
}

func TestBounds(t *testing.T) {
	var page strings.Builder
	for i := range MaxProperties + 1 {
		fmt.Fprintf(&page, `<meta property="og:p%d" content="%s">`, i, strings.Repeat("x", MaxValue+1))
	}
	for range MaxValues {
		page.WriteString(`<meta property="og:p0" content=x>`)
	}
	for range MaxBlocks + 1 {
		page.WriteString(`<script type="application/ld+json">{}</script>`)
	}
	m := read(page.String())
	require.Len(t, m.Properties, MaxProperties)
	require.Len(t, m.Properties[0].Values, MaxValues)
	require.Len(t, m.Properties[0].Values[0], MaxValue)
	require.Len(t, m.JSONLD, MaxBlocks)
	require.Equal(t, 3, m.Dropped)

	large := `<script type="application/ld+json">["` + strings.Repeat("x", MaxJSON/2) + `"]</script>`
	m = read(large + large + `<script type="application/ld+json">{}</script>`)
	require.Len(t, m.JSONLD, 2, "the large one that is too much, and the small one behind it")
	require.Equal(t, 1, m.Dropped)
}

// A block of nested arrays that Go still reads would, within a record, be too deep for it, and the whole record lost
// to whoever reads the file.
func TestDeepBlocks(t *testing.T) {
	block := func(n int) string {
		return `<script type="application/ld+json">` + strings.Repeat("[", n) + `"[\"["` + strings.Repeat("]", n) + "</script>"
	}
	m := read(block(MaxDepth) + block(MaxDepth+1) + block(9_999) + block(100_000) + `<script type="application/ld+json">{}</script>`)
	require.Len(t, m.JSONLD, 2)
	require.Equal(t, 3, m.InvalidJSONLD)
}

func costs(page string, steps int64) (Metadata, *effort.Budget) {
	d := dom.Parse([]byte(page))
	d.Budget = effort.New(context.Background(), steps, nil, time.Time{})
	return Read(d), d.Budget
}

func TestTheBudgetEndsTheReading(t *testing.T) {
	m, b := costs(strings.Repeat(`<meta property="og:x" content=y>`, 1000), 100)
	require.True(t, b.Spent())
	require.Less(t, len(m.Properties[0].Values), MaxValues)
	require.NotEmpty(t, m.Properties[0].Values)
}

// A block costs what its repairs read, and one that the budget does not cover is not read.
func TestBlocksAreCharged(t *testing.T) {
	block := `<script type="application/ld+json">["` + strings.Repeat("x", 64_000) + `"]</script>`
	m, b := costs(block, math.MaxInt64)
	require.Len(t, m.JSONLD, 1)
	require.GreaterOrEqual(t, b.Used(), int64(repairPasses*64_000/effort.Bytes))
	m, b = costs(block, 1000)
	require.Empty(t, m.JSONLD)
	require.True(t, b.Spent())
}

func FuzzRead(f *testing.F) {
	f.Add(strings.Repeat(`<script type=application/ld+json>{,,,;;;//]]></script>`, 30))
	f.Add(strings.Repeat(`<meta property="og:a og:b" name=og:c content="x  y">`, 30))
	f.Add(`<meta property=og:a content=b><script type=application/ld+json>{"a":[1,],"b":"c
"}</script>`)
	f.Add(`<script type=application/ld+json>//<![CDATA[ {&quot;a&quot;:1} ;//]]></script>`)
	f.Fuzz(func(t *testing.T, page string) {
		for _, block := range read(page).JSONLD {
			require.True(t, json.Valid([]byte(block)), block)
			require.NotContains(t, block, "\n")
		}
		_, b := costs(page, math.MaxInt64)
		require.LessOrEqual(t, b.Used(), int64(1000+5*len(page)), "steps")
	})
}

// FuzzJSONLD: what is read of a block costs a few steps for each of its bytes, however broken.
func FuzzJSONLD(f *testing.F) {
	for _, block := range []string{`{"a":1}`, `[[[[`, `{,,,;;;//]]>`, "//<![CDATA[\n{\"a\":\"b\nc\",}\n//]]>", `{&quot;a&quot;:1};`, "\ufeff<!-- {} -->", `{"a":"` + "\t\x01" + `\\u00`} {
		f.Add(block, uint8(1))
		f.Add(strings.Repeat(block, 40), uint8(3))
	}
	f.Fuzz(func(t *testing.T, block string, times uint8) {
		page := strings.Repeat("<script type='application/ld+json'>"+block+"</script>", int(times))
		m, b := costs(page, math.MaxInt64)
		for _, block := range m.JSONLD {
			require.True(t, json.Valid([]byte(block)), block)
		}
		require.LessOrEqual(t, b.Used(), int64(1000+5*len(page)), "steps")
	})
}
