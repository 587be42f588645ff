package extract

import (
	"bytes"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// refs is the references of a style sheet, joined by "|".
func refs(sheet string) string {
	var got []string
	c := cssScanner{s: []byte(sheet)}
	for ref := c.next(); ref != nil; ref = c.next() {
		got = append(got, string(ref))
	}
	if len(got) > 0 && !refers([]byte(sheet)) {
		return "not looked for: " + sheet
	}
	return strings.Join(got, "|")
}

// The cases are in testdata/css.txt: a sheet and its references.
func TestCSS(t *testing.T) {
	for sheet, want := range pairs(t, "css.txt") {
		require.Equal(t, want, refs(sheet), "%q", sheet)
	}
}

// TestCSSWritten writes references in every way that there is, between all that can stand around them, and reads them
// back.
func TestCSSWritten(t *testing.T) {
	around := []string{" ", "\n", "/* url(no) ' */", "a", "{", "}", ";", ":", ",", "'str)('", "\"s'\"", "\\66oo", "f(1)", "#h", "3px", "(", ")", "[x]", "!important", "@media x", "é"}
	for seed := range uint64(4000) {
		r := rand.New(rand.NewPCG(seed, 7))
		var sheet strings.Builder
		var want []string
		for range r.IntN(6) {
			for range r.IntN(5) {
				sheet.WriteString(around[r.IntN(len(around))])
			}
			ref := fmt.Sprintf("r%d%s", r.IntN(100), []string{"", " ", "'", "\"", "(", ")", "\\", "é", "\n", "/*"}[r.IntN(10)])
			sheet.WriteString("; " + written(r, ref))
			want = append(want, ref)
		}
		require.Equal(t, strings.Join(want, "|"), refs(sheet.String()), "%q", sheet.String())
	}
}

// written is one of the ways to write a reference.
func written(r *rand.Rand, ref string) string {
	quote := []string{"'", `"`}[r.IntN(2)]
	inner := escaped(r, ref, quote+"\\\n")
	switch r.IntN(5) {
	case 0:
		return "@import " + quote + inner + quote + ";"
	case 1:
		return "x:image-set(" + quote + inner + quote + " 1x)"
	case 2:
		return "x:url( " + quote + inner + quote + " )"
	case 3:
		return "@import\turl(" + quote + inner + quote + ") print;"
	}
	return "x:URL(" + escaped(r, ref, " '\"()\\\n") + ")"
}

// escaped escapes the characters that need it and now and then another.
func escaped(r *rand.Rand, s, need string) string {
	var b strings.Builder
	for _, c := range s {
		switch hard := strings.ContainsRune(need, c); {
		case hard && c != '\n' && r.IntN(2) == 0:
			b.WriteString("\\" + string(c))
		case hard || r.IntN(6) == 0:
			fmt.Fprintf(&b, []string{"\\%x ", "\\%06x\n", "\\%X\t"}[r.IntN(3)], c)
		default:
			b.WriteRune(c)
		}
	}
	return b.String()
}

// FuzzCSS holds what is true of every sheet: each reference is in it, but for its escapes, the next begins behind it,
// and a comment in front of the sheet changes nothing.
func FuzzCSS(f *testing.F) {
	for _, sheet := range []string{
		"@import 'a'; b{c:url(d)}", `@namespace url(x);a{b:image-set("c" 1x,url(d))}`, "\\75 rl(x\\)\\20 y)", "/*", "url('", "url(\\", "@import \\", "a{b:url(a b)}'\\\n'",
	} {
		f.Add([]byte(sheet))
	}
	f.Fuzz(func(t *testing.T, sheet []byte) {
		c := cssScanner{s: sheet}
		var all [][]byte
		for at := 0; ; at = c.at {
			ref := c.next()
			if ref == nil {
				break
			}
			if c.at <= at || c.at > len(sheet) {
				t.Fatalf("%q: from %d to %d", sheet, at, c.at)
			}
			part := sheet[at:c.at]
			if bytes.IndexByte(part, '\\') < 0 && !bytes.Contains(part, ref) || len(ref) > utf8.UTFMax*len(part) {
				t.Fatalf("%q: %q is not in %q", sheet, ref, part)
			}
			all = append(all, bytes.Clone(ref))
		}
		again := cssScanner{s: append([]byte("/* url(x) */"), sheet...)}
		for _, want := range all {
			if got := again.next(); !bytes.Equal(got, want) {
				t.Fatalf("%q behind a comment: %q, want %q", sheet, got, want)
			}
		}
		if got := again.next(); got != nil {
			t.Fatalf("%q behind a comment: %q more", sheet, got)
		}
	})
}

// A style sheet is read for what it loads, against its own URL.
func TestStyleSheet(t *testing.T) {
	const sheet = "@import 'a.css'; b{c:url(../d.png)} e{f:url(#g) url('') url(data:x)}"
	r := readAs(t, "text/css", "", sheet, Options{Resources: true})
	require.Equal(t, "\nR https://example.com/dir/a.css\nR https://example.com/d.png", listing(r))
	require.True(t, r.HTML)

	r = readAs(t, "text/css", "latin1", "a{b:url(?\xfc)}", Options{Resources: true})
	require.Equal(t, "\nR https://example.com/dir/page.html?%C3%BC", listing(r), "queries are UTF-8 there")
}

// pairs are the lines of a file of cases: what is read, and what comes of it.
func pairs(t *testing.T, name string) iter.Seq2[string, string] {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name)
	require.NoError(t, err)
	return func(yield func(string, string) bool) {
		for line := range strings.Lines(string(text)) {
			var in, out string
			_, err := fmt.Sscanf(line, "%q %q", &in, &out)
			require.NoError(t, err, line)
			if !yield(in, out) {
				return
			}
		}
	}
}
