package extract

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRefreshTarget(t *testing.T) {
	for content, want := range map[string]string{
		"5; url=next.html":        "next.html",
		"0;URL='a b'c":            "a b",
		`0;url="a`:                "a",
		"0, next":                 "next",
		"0 next":                  "next",
		"0.5;url = next":          "next",
		".5;url=next":             "next",
		" 1 ; url=next ":          "next",
		"0;urlnext":               "urlnext",
		"0;url":                   "url",
		"0;url=":                  "",
		"5":                       "",
		"5;":                      "",
		"":                        "",
		"url=next":                "",
		"x;url=next":              "",
		"0url=next":               "",
		"0;url='":                 "",
		"0; url=http://h/?url=x;": "http://h/?url=x;",
	} {
		require.Equal(t, want, string(refreshTarget([]byte(content))), "%q", content)
	}
}

func TestNextImage(t *testing.T) {
	for set, want := range map[string]string{
		"":                             "",
		" , ,":                         "",
		"a":                            "a",
		"a 1x, b 2x":                   "a|b",
		"a,b":                          "a,b",
		"a, b":                         "a|b",
		"a,, b":                        "a|b",
		"a 100w,b 200w":                "a|b",
		"a (x,y) , b":                  "a|b",
		"a )(,b":                       "a|b",
		"data:image/png;base64,AA= 2x": "data:image/png;base64,AA=",
		"a 1x":                         "a",
	} {
		var got []string
		for rest := []byte(set); len(rest) > 0; {
			var ref []byte
			if ref, rest = nextImage(rest); len(ref) > 0 {
				got = append(got, string(ref))
			}
		}
		require.Equal(t, want, strings.Join(got, "|"), "%q", set)
	}
}

func TestFieldIsWhatTheTextIs(t *testing.T) {
	for _, s := range []string{
		"", " ", "a", " a", "a ", "a b", "a  b", "a\tb", "a \nb", "a\x00b", "a\x7fb", "é", "a\xffb", "\u00a0a", "<&>",
		strings.Repeat("a", maxField), strings.Repeat("a", maxField+1), strings.Repeat("a b", maxField),
	} {
		var b textBuffer
		b.add([]byte(s))
		want := b.string()
		require.Equal(t, want[:min(len(want), maxField)], field([]byte(s)), "%.20q", s)
	}
}
