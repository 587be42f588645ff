package extract

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/lab/conformance"
	"github.com/treadlight/crawl/record"
)

func TestNextLink(t *testing.T) {
	for value, want := range pairs(t, "link-header.txt") {
		var got []string
		for rest := value; rest != ""; {
			var l HeaderLink
			l, rest = NextLink(rest)
			s := l.Target
			for _, name := range []string{"rel", "type", "hreflang", "as", "anchor"} {
				if v := l.Params[name]; v != "" {
					s += " " + name + "=" + v
				}
			}
			got = append(got, s)
		}
		require.Equal(t, want, strings.Join(got, "|"), "%q", value)
	}
}

// FuzzLinkHeader holds that every step ends nearer to the end, and that what is written as RFC 8288 has it is read
// back.
func FuzzLinkHeader(f *testing.F) {
	f.Add("<a>; rel=next, <b>; rel=\"prev\\\"\"", "target", "rel")
	f.Add(",<;,;>\";=", "a;b,c", "x \" \\ y")
	f.Fuzz(func(t *testing.T, value, target, rel string) {
		for rest := value; rest != ""; {
			var l HeaderLink
			before := len(rest)
			if l, rest = NextLink(rest); len(rest) >= before || len(l.Target)+len(l.Params["rel"])+len(l.Params["as"]) > before {
				t.Fatalf("%q: %+v, then %q", value, l, rest)
			}
		}
		if strings.ContainsRune(target, '>') || rel == "" {
			return
		}
		quoted := `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(rel) + `"`
		for _, spelled := range []string{"<%s>;rel=%s", " , <%s>; title=\"a, <b>; rel=no\" ; rel = %s , <x>"} {
			if l, _ := NextLink(fmt.Sprintf(spelled, target, quoted)); l.Target != target || l.Params["rel"] != rel {
				t.Fatalf(spelled+": %q %q", target, quoted, l.Target, l.Params["rel"])
			}
		}
	})
}

func TestHeaderLinks(t *testing.T) {
	header := http.Header{
		"Link": {
			`<next>; rel=next, <s.css>; rel="preload stylesheet"; as=style, <i.png>; rel=preload; as=image`,
			`<feed>; rel=alternate; type=application/rss+xml; hreflang=de, </c>; rel=canonical, <no>, <mailto:x>; rel=author, <#f>; rel=next`,
		},
		"Refresh": {"5; url='r'"},
	}
	for _, tt := range []struct {
		mediaType string
		opts      Options
		want      string
	}{
		{"text/html", Options{Resources: true, Feeds: true}, `
			https://example.com/dir/next
			R https://example.com/dir/s.css
			R https://example.com/dir/i.png
			https://example.com/dir/feed
			https://example.com/c
			https://example.com/dir/r
			https://example.com/b/x`},
		{"application/pdf", Options{}, `
			https://example.com/dir/next
			https://example.com/c
			https://example.com/dir/r`},
	} {
		r := readDocument(t, &Document{URL: mustParse(t, docURL), MediaType: tt.mediaType, Header: header, Body: []byte("<base href=/b/><a href=x>")}, tt.opts)
		require.Equal(t, strings.ReplaceAll(tt.want, "\t", ""), listing(r))
		require.Equal(t, "https://example.com/c", r.Meta.Canonical)
		require.Equal(t, "https://example.com/dir/next", r.Next)
		require.Equal(t, []record.Alternate{{Href: "https://example.com/dir/feed", HrefLang: "de", Type: "application/rss+xml"}}, r.Alternates)
	}

	many := http.Header{"Link": {strings.Repeat("<x>; rel=next, ", maxHeaderLinks) + "<y>; rel=next"}}
	require.Len(t, readDocument(t, &Document{URL: mustParse(t, docURL), Header: many}, Options{}).Links, 1)
}

func TestDirectives(t *testing.T) {
	const past, future = "2010-06-25T15:00:00Z", "2110-01-02T00:00:00Z"
	tests := []struct {
		name, header, page string
		want               string
		noIndex, noFollow  bool
	}{
		{"nothing", "", "<meta name=robots content=''>", "", false, false},
		{"what is allowed", "all", "<meta name=robots content='index, follow, max-image-preview:large'>", "max-image-preview:large", false, false},
		{"header", "NoIndex , nofollow", "", "noindex|nofollow", true, true},
		{"both", "noindex", "<meta name=Robots content='NOFOLLOW,noindex'>", "noindex|nofollow", true, true},
		{"none", "", "<meta name=robots content=none>", "noindex|nofollow", true, true},
		{"to us", "treadlight: noindex", "<meta name=Treadlight content=nofollow>", "noindex|nofollow", true, true},
		{"to others", "otherbot: noindex, nofollow", "<meta name=googlebot content=noindex>", "", false, false},
		{"to several", "nosnippet, otherbot: noindex, TreadLight: nofollow, noarchive, thirdbot: none", "", "nosnippet|nofollow|noarchive", false, true},
		{"fields", "otherbot: noindex\nnofollow\n*: noarchive", "", "nofollow|noarchive", false, true},
		{"values", "max-snippet: 20, max-video-preview:-1", "", "max-snippet: 20|max-video-preview:-1", false, false},
		{"two meta", "", "<meta name=robots content=noindex><meta name=robots content=noarchive>", "noindex|noarchive", true, false},
		{"RFC 850 date", "unavailable_after: 25 Jun 2010 15:00:00 GMT", "", "unavailable_after: " + past, false, false},
		{"RFC 1123 date", "noarchive, unavailable_after: Fri, 25 Jun 2010 15:00:00 GMT, nosnippet", "", "noarchive|unavailable_after: " + past + "|nosnippet", false, false},
		{"ISO date", "", "<meta name=robots content='Unavailable_After:2110-01-02, noimageindex'>", "unavailable_after: " + future + "|noimageindex", false, false},
		{"to us until", "treadlight: unavailable_after: Fri, 25 Jun 2010 15:00:00 GMT", "", "unavailable_after: " + past, false, false},
		{"no date", "unavailable_after: soon, noindex", "", "unavailable_after: soon|noindex", true, false},
		{"junk", "no\x1bindex, " + strings.Repeat("x", 65) + ",,", "", "", false, false},
		{"within a template", "", "<template><meta name=robots content=none></template>", "", false, false},
		{"within a frame", "", "<iframe srcdoc='<meta name=robots content=none>'></iframe>", "", false, false},
	}
	var e Extractor
	for _, tt := range tests {
		for range 2 { // the second time what the page says is remembered
			var r Result
			d := &Document{URL: mustParse(t, docURL), MediaType: "text/html", Body: []byte(tt.page)}
			if tt.header != "" {
				d.Header = http.Header{"X-Robots-Tag": strings.Split(tt.header, "\n")}
			}
			require.NoError(t, e.Document(d, Options{Agent: "treadlight"}, &r))
			require.Equal(t, tt.want, strings.Join(r.Directives, "|"), tt.name)
			require.Equal(t, tt.noIndex, r.NoIndex, tt.name)
			require.Equal(t, tt.noFollow, r.NoFollow, tt.name)
			at := time.Time{}
			if _, date, ok := strings.Cut(tt.want, "unavailable_after: 2"); ok {
				at, _ = time.Parse(time.RFC3339, "2"+date[:19])
			}
			require.True(t, at.Equal(r.UnavailableAfter), "%s: %v", tt.name, r.UnavailableAfter)
		}
	}
	require.Empty(t, read(t, "<meta name=treadlight content=noindex>", Options{}).Directives, "nobody has said what we are called")
}

// A page full of directives is read up to a bound, wherever they stand.
func TestDirectivesAreBounded(t *testing.T) {
	junk := strings.Repeat("unavailable_after,", maxDirectiveWords)
	var d directives
	d.read(junk+"noindex", "treadlight", true)
	require.Equal(t, []string{afterWord}, d.list)
	d.read("noindex", "", false)
	require.False(t, d.noIndex)

	var words []string
	for i := range 2 * maxDirectives {
		words = append(words, fmt.Sprintf("word-%d", i))
	}
	d = directives{}
	d.read(strings.Join(words, ",")+",noindex", "", false)
	require.Len(t, d.list, maxDirectives)
	require.True(t, d.noIndex, "what matters is seen, though the list is full")
}

// FuzzDirectives holds that whatever is said, what comes of it is bounded and printable, and that to say it again
// changes nothing.
func FuzzDirectives(f *testing.F) {
	for _, s := range []string{"noindex, nofollow", "bot: none, treadlight: noindex", "unavailable_after: Fri, 25 Jun 2010 15:00:00 GMT, x", ":::,,,:", "unavailable_after:unavailable_after"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var d directives
		d.read(s, "treadlight", true)
		d.read(s, "", false)
		first := strings.Join(d.list, ",")
		for _, word := range d.list {
			if word == "" || len(word) > maxDirective || strings.ContainsFunc(word, func(r rune) bool { return r < ' ' || r > '~' }) {
				t.Fatalf("%q: %q", s, word)
			}
		}
		d.read(s, "treadlight", true)
		d.read(s, "", false)
		if again := strings.Join(d.list, ","); again != first || len(d.list) > maxDirectives {
			t.Fatalf("%q: %q, then %q", s, first, again)
		}
	})
}

// The cases are in testdata/conformance/headers.
func TestLinkConforms(t *testing.T) {
	text, err := os.ReadFile("../../../testdata/conformance/headers/links.txt")
	require.NoError(t, err)
	cases := 0
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		if line == "" || line[0] == '#' {
			continue
		}
		value, want, ok := strings.Cut(line, "\t")
		require.True(t, ok, line)
		cases++
		var got []string
		for rest := value; rest != ""; {
			var l HeaderLink
			if l, rest = NextLink(rest); l.Params["rel"] == "" {
				continue
			}
			said := l.Target + " " + l.Params["rel"]
			if l.Params["anchor"] != "" {
				said += " of another"
			}
			got = append(got, said)
		}
		require.Equal(t, want, strings.Join(got, " | "), value)
	}
	conformance.Report(t, "links", conformance.Result{Cases: cases, Passed: cases})
}
