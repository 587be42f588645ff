package canonical

import (
	"testing"

	whatwg "github.com/nlnwa/whatwg-url/url"
)

// benchRefs are the kinds of link a documentation page has, about as often as it
// has them.
func benchRefs() [][]byte {
	refs := []string{
		"../library/os.html#os.walk", "#index-3", "functions.html", "../index.html", "https://docs.example.org/3/whatsnew/3.11.html",
		"../reference/datamodel.html#object.__init__", "/3/search.html?q=a&check_keywords=yes", "https://github.com/example/project/issues/1234",
		"collections.abc.html#collections.abc.Mapping", "//cdn.example.net/static/a.css", "./glossary.html", "mailto:docs@example.org",
		"/wiki/%D0%93%D0%BE%D1%80%D0%BE%D0%B4", "https://de.example.org/größe", "stdtypes.html#str", "../genindex.html",
	}
	out := make([][]byte, len(refs))
	for i, r := range refs {
		out[i] = []byte(r)
	}
	return out
}

func BenchmarkResolve(b *testing.B) {
	base := mustParse(b, "https://docs.example.org/3/library/index.html")
	refs := benchRefs()
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		_, _ = base.ResolveBytes(refs[i%len(refs)])
	}
}

// BenchmarkLibrary is the same work by the library alone, with its base parsed once.
func BenchmarkLibrary(b *testing.B) {
	base, err := whatwg.Parse("https://docs.example.org/3/library/index.html")
	if err != nil {
		b.Fatal(err)
	}
	refs := benchRefs()
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if u, err := base.Parse(string(refs[i%len(refs)])); err == nil {
			_ = u.Href(true)
		}
	}
}

func BenchmarkFingerprint(b *testing.B) {
	u := mustParse(b, "https://docs.example.org/3/library/collections.abc.html?x=1&y=2")
	b.ReportAllocs()
	for b.Loop() {
		u.Fingerprint(42)
	}
}
