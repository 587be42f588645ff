package extract

import (
	"fmt"
	stdhtml "html"
	"math/rand/v2"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Forms are sent in the encoding of their page.
func TestFormCharset(t *testing.T) {
	const page = "<form action='/s'><input name=q value='\xfc&#1234;'></form>"
	r := readAs(t, "text/html", "latin1", page, Options{Forms: true})
	require.Equal(t, "\nhttps://example.com/s?q=%FC%26%231234%3B", listing(r))
}

// The query of a link is in the encoding of its page, also where the page is in ASCII and only a character reference
// is not: URL standard, "percent-encode after encoding".
func TestQueryCharset(t *testing.T) {
	for page, want := range map[string]string{
		"<meta charset=iso-8859-1><a href='/&uuml;?q=&uuml;&amp;w=&#x20ac;&#1234;'>x</a>":               "/%C3%BC?q=%FC&w=%80%26%231234%3B",
		"<meta charset=iso-8859-1><a href='/?q=\xfc'>x</a>":                                             "/?q=%FC",
		"<meta charset=iso-8859-1><form action=/s><input name=q value='&uuml;'></form>":                 "/s?q=%FC",
		"<meta charset=iso-8859-1><a href='/?q=\u00fc'>x</a>":                                           "/?q=%C3%BC", // it is UTF-8
		"<meta charset=utf-8><a href='/?q=&uuml;'>x</a>":                                                "/?q=%C3%BC",
		"<a href='/?q=&uuml;'>x</a>":                                                                    "/?q=%C3%BC",
		"<style>" + strings.Repeat("x", 2000) + "</style><meta charset=koi8-r><a href='/?q=\xcf'>x</a>": "/?q=%CF",
	} {
		r := readAs(t, "text/html", "", page, Options{Forms: true})
		require.Len(t, r.Links, 1)
		require.Equal(t, "https://example.com"+want, r.Links[0].URL.String(), page)
	}
}

func TestFormsAreBounded(t *testing.T) {
	form := func(fields, size int) string {
		var b strings.Builder
		b.WriteString("<form action=/s>")
		for i := range fields {
			fmt.Fprintf(&b, "<input name=f%d value=%s>", i, strings.Repeat("x", size))
		}
		b.WriteString("</form>")
		return b.String()
	}
	opts := Options{Forms: true}
	require.Len(t, read(t, form(maxFields, 1), opts).Links, 1)
	require.Empty(t, read(t, form(maxFields+1, 1), opts).Links)
	require.Empty(t, read(t, form(1, maxQuery), opts).Links)
	require.Len(t, read(t, form(1, maxQuery)+form(1, 1), opts).Links, 1, "the next one is another form")
	require.Len(t, read(t, "<form action=/s><textarea name=t>"+strings.Repeat("x", maxQuery+1)+"</textarea></form>", opts).Links, 1)
}

// What a form would send is what a server reads.
func TestFormsReadBack(t *testing.T) {
	pieces := []string{"a", "b c", "&", "=", "+", "%", "é", "<", "\"", "'", "#", "?", "/", ";", "\n", "~", "*", "日本"}
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 8))
		text := func() (s string) {
			for range 1 + r.IntN(4) {
				s += pieces[r.IntN(len(pieces))]
			}
			return s
		}
		want, page := url.Values{}, "<form action=/s>"
		for range 1 + r.IntN(5) {
			name, value := text(), text()
			want.Add(name, value)
			page += fmt.Sprintf(`<input name="%s" value="%s">`, stdhtml.EscapeString(name), stdhtml.EscapeString(value))
		}
		links := read(t, page, Options{Forms: true}).Links
		require.Len(t, links, 1, page)
		u, err := url.Parse(links[0].URL.String())
		require.NoError(t, err)
		require.Equal(t, want, u.Query(), page)
	}
}
