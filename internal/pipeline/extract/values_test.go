package extract

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	nethtml "golang.org/x/net/html"
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

func TestIndex(t *testing.T) {
	var x index
	x.reset()
	const n = 3 * minSlots
	for i := range n {
		slot, at := x.find(uint64(i) * 0x10001)
		require.Equal(t, -1, at)
		x.set(slot, i)
	}
	for i := range n {
		_, at := x.find(uint64(i) * 0x10001)
		require.Equal(t, i, at)
	}
	_, at := x.find(1)
	require.Equal(t, -1, at)
	x.reset()
	_, at = x.find(0x10001)
	require.Equal(t, -1, at)
}

// tokens walks over page and calls visit for each tag, with the scanner on it.
func tokens(page []byte, visit func(s *scanner)) {
	var s scanner
	for s.reset(page, false); ; {
		switch s.token() {
		case nethtml.ErrorToken:
			return
		case nethtml.StartTagToken, nethtml.SelfClosingTagToken:
			visit(&s)
		}
	}
}

// FuzzAttrs holds the quick reader of attributes against the tokenizer's own, on
// every tag that the quick one would be used for.
func FuzzAttrs(f *testing.F) {
	for _, page := range []string{
		`<a href=x rel="y" data='z'>`, `<a / = =x href = "a" / b=>`, `<img src=a/ srcset = b/>`, `<A HREF HREF=2>`,
		`<a href="a>b" type='c"d'/>`, "<link\nrel\n=\nx\fhref=y>", `<a =href=x ==href=y>`, `<meta name=a content= http-equiv>`, `<a href=a"b'c=d>`,
	} {
		f.Add([]byte(page))
	}
	f.Fuzz(func(t *testing.T, page []byte) {
		tokens(page, func(s *scanner) {
			raw := s.raw()
			if strings.ContainsAny(string(raw), "&\r\x00") {
				return
			}
			var buf [maxName]byte
			ours := string(tagName(raw, &buf))
			var quick, slow attrs
			quick.readPlain(raw)
			name, _ := s.z.TagName()
			slow.readTokenizer(s.z)
			if len(name) <= maxName && ours != string(name) {
				t.Fatalf("%q: name %q, want %q", raw, ours, name)
			}
			for a := range numAttrs {
				if quick.has[a] != slow.has[a] || string(quick.vals[a]) != string(slow.vals[a]) {
					t.Fatalf("%q: %s is %v %q, want %v %q", raw, attrNames[a], quick.has[a], quick.vals[a], slow.has[a], slow.vals[a])
				}
			}
		})
	})
}
