package config

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWhichBodiesAreRead(t *testing.T) {
	l := mustLoad(t, Sources{Flags: flags("set", "fetch.accept_types=text/*", "set", "fetch.accept_types=!text/css", "set", "fetch.skip_larger=50MiB")})
	require.Equal(t, []string{"text/*", "!text/css"}, l.Config.Fetch.AcceptTypes)
	require.EqualValues(t, 50<<20, l.Config.Fetch.SkipLarger)

	_, err := Load(Sources{Flags: flags("set", "fetch.accept_types=html")})
	require.ErrorContains(t, err, `fetch.accept_types[0]: "html" is no pattern of media types: write type/subtype`)
}

// What records have is a list of words, with commas or repeated, in any layer.
func TestWhatRecordsHave(t *testing.T) {
	has := func(src Sources) (parts []string) {
		o := mustLoad(t, src).Config.Output
		for _, part := range []string{"text", "main-text", "metadata", "body", "links", "digest"} {
			if o.Has(part) {
				parts = append(parts, part)
			}
		}
		return parts
	}
	require.Equal(t, []string{"links", "digest"}, has(Sources{}))
	require.Equal(t, []string{"text", "body", "links", "digest"}, has(Sources{Flags: flags("record", "text, body")}))
	require.Equal(t, []string{"metadata"}, has(Sources{Flags: flags("record", "no-links,no-digest", "record", "metadata")}))
	require.Equal(t, []string{"main-text", "links"}, has(yamlFile("output: {record: [no-digest, main-text]}")))
	require.Equal(t, []string{"text", "links", "digest"}, has(Sources{File: "-", Reader: strings.NewReader("output: {record: body}"), Env: []string{"CRAWL_OUTPUT_RECORD=text"}}), "a stronger layer replaces a list")
	require.Equal(t,
		[]string{`output.record[1]: "links" is none of the words; give some of text, main-text, metadata, body, no-links, no-digest [flag --record]`},
		problems(t, Sources{Flags: flags("record", "text,links")}))
	require.Equal(t, "flag --record", mustLoad(t, Sources{Flags: flags("record", "text,body")}).Origins["output.record[1]"].String())
}

// What has no place in a format is named at the start.
func TestPartsWithoutAPlace(t *testing.T) {
	for text, want := range map[string]string{
		"{output: {format: csv, record: [text, body, metadata]}}":                "of pages, text, metadata, body will not be written, since the format \"csv\" has no place for that",
		"{output: {format: urls, record: main-text}, extract: {fields: {a: b}}}": "of pages, fields, main-text will",
		"{output: {format: csv}, extract: {fields: {a: css:b}}}":                 "",
		"{output: {format: urls, record: [no-links, no-digest]}}":                "",
		"{output: {record: [text, body, metadata, main-text]}}":                  "",
		"{output: {format: csv}}":                                                "",
	} {
		l, err := loadText(strings.Replace(text, "{a: b}", "{a: css:b}", 1))
		require.NoError(t, err)
		told := strings.Join(l.Warnings, "\n")
		if want == "" {
			require.NotContains(t, told, "output.record", text)
			continue
		}
		require.Contains(t, told, want, text)
	}
}
