package extract

import (
	"bufio"
	"bytes"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/html/charset"

	"github.com/treadlight/crawl/internal/lab/conformance"
	"github.com/treadlight/crawl/internal/web/chardet"
)

const charsetCases = "../../../testdata/conformance/charset/"

// lines are those of a file of cases, without comments.
func caseLines(t *testing.T, name string) (all []string) {
	t.Helper()
	f, err := os.Open(charsetCases + name)
	require.NoError(t, err)
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if line := s.Text(); line != "" && line[0] != '#' {
			all = append(all, line)
		}
	}
	return all
}

// TestLabels looks up every label of the Encoding Standard, in all the spellings there are.
func TestLabels(t *testing.T) {
	labels, right := 0, 0
	for _, line := range caseLines(t, "labels.txt") {
		name, list, _ := strings.Cut(line, ": ")
		for label := range strings.FieldsSeq(list) {
			for _, spelling := range []string{label, strings.ToUpper(label), "\t" + label + " "} {
				labels++
				r := readAs(t, "text/html", spelling, "<p>x", Options{})
				if r.Charset == name {
					right++
				} else {
					t.Errorf("%q is %s, want %s", spelling, r.Charset, name)
				}
			}
		}
	}
	require.Equal(t, 3*228, labels, "the standard has 228 labels")
	if !t.Failed() {
		conformance.Report(t, "labels", conformance.Result{Cases: labels, Passed: right})
	}
}

var repeated = regexp.MustCompile(`(.)\*([0-9]+)\*`)

// TestEncodings runs the cases of how the encoding of a page is determined.
func TestEncodings(t *testing.T) {
	cases, right := 0, 0
	for _, line := range caseLines(t, "encodings.txt") {
		parts := strings.Split(line, "\t")
		require.Len(t, parts, 3, line)
		server := strings.Trim(strings.TrimPrefix(parts[0], "-"), `"`)
		page, err := strconv.Unquote(parts[1])
		require.NoError(t, err, line)
		page = repeated.ReplaceAllStringFunc(page, func(s string) string {
			m := repeated.FindStringSubmatch(s)
			n, err := strconv.Atoi(m[2])
			require.NoError(t, err)
			return strings.Repeat(m[1], n)
		})
		cases++
		var e Extractor
		var r Result
		for range 2 { // the second time the declaration is remembered
			require.NoError(t, e.Page(mustParse(t, docURL), "text/html", server, []byte(page), Options{}, &r))
		}
		if r.Charset == parts[2] {
			right++
		} else {
			t.Errorf("%s\ngot %s", line, r.Charset)
		}
	}
	require.Greater(t, cases, 70)
	if !t.Failed() {
		conformance.Report(t, "encodings", conformance.Result{Cases: cases, Passed: right})
	}
}

// UTF8 gives the text that the page was read as.
func TestUTF8(t *testing.T) {
	for _, tt := range []struct{ name, body, want string }{
		{"utf-8", "Grün", "Grün"},
		{"utf-8", "\ufeffGrün", "Grün"},
		{"", "Grün", "Grün"},
		{"klingon", "Grün", "Grün"},
		{"windows-1252", "Gr\xfcn", "Grün"},
		{"shift_jis", "\x93\xfa\x96{", "日本"},
		{"utf-16le", "\xff\xfea\x00\xfc\x00", "aü"},
	} {
		require.Equal(t, tt.want, strings.TrimPrefix(string(UTF8([]byte(tt.body), tt.name)), "\ufeff"), "%+v", tt)
	}
}

func plainASCII(b []byte) []byte {
	out := slices.Clone(b)
	for i, c := range out {
		if c >= utf8.RuneSelf {
			out[i] = '?'
		}
	}
	return out
}

// expected is the encoding of a page by the library, where it says something. It answers by the text where the page
// says nothing, and so differently to two texts.
func expected(body []byte, server string) string {
	_, name, certain := charset.DetermineEncoding(body, "")
	if certain {
		return name
	}
	if _, n := charset.Lookup(strings.TrimSpace(server)); n != "" {
		return n
	}
	_, ascii, _ := charset.DetermineEncoding(plainASCII(body), "")
	_, other, _ := charset.DetermineEncoding(append(plainASCII(body), "é."...), "")
	switch {
	case ascii != other && !bytes.ContainsAny(body, "\x00\x1b") && utf8.Valid(body):
		return utf8Name
	case ascii != other:
		return chardet.Detect(body)
	case ascii == "x-user-defined":
		ascii = chardet.Default
	}
	if ascii == chardet.Default && utf8.Valid(body) && !IsASCII(body) {
		return utf8Name
	}
	return ascii
}

// FuzzEncodings has three pages in a row, of which each may declare what another did.
func FuzzEncodings(f *testing.F) {
	for _, page := range []string{
		"<meta charset=latin1>é", "<meta charset=utf-8>\xff", "<META HTTP-EQUIV='Content-Type' CONTENT='text/html; CHARSET=Shift_JIS'>", "<meta content='charset=koi8-r'>", "é", "\xff\xfea",
		"<meta http-equiv=content-type content='text/html;&#99;harset=koi8-r'>é", "<title><meta charset=koi8-r></title>\xe9", "<meta charset=nothing content='charset=big5' http-equiv=content-type>", "\ufeff<meta charset=big5>",
		"<meta name=description content='Gr\xfc\xdfe, charset'><meta charset=iso-8859-2>", "<!-- " + strings.Repeat("x", 900) + "--><meta charset=big5>é", strings.Repeat("<meta charset=x>", 60) + "é", "<meta charset=utf-16>",
		"é\xe1", "<meta charset=x-user-defined>\xe9", "<?xml encoding='koi8-r'?>\xe9", "\x1b$B\x00",
	} {
		f.Add([]byte(page), []byte("<meta charset=utf-8>x"), "")
		f.Add([]byte("<meta charset=latin1>"), []byte(page), "utf-8")
		f.Add([]byte("text"), []byte(page), "nothing")
	}
	f.Fuzz(func(t *testing.T, first, second []byte, server string) {
		var s scanner
		for _, body := range [][]byte{first, second, first, first} {
			enc, name := encodingOf(&s, body, server)
			same, _ := charset.Lookup(name)
			require.NotNil(t, same, name)
			got, _ := enc.NewDecoder().Bytes(body)
			want, _ := same.NewDecoder().Bytes(body)
			if name != utf8Name { // which is handed out as it is
				require.Equal(t, string(want), string(got), name)
			}
			if len(body) > 1000 || bytes.HasPrefix(body, []byte("<?xml")) {
				continue // the samples would not fit; the library does not know of these
			}
			if want := expected(body, server); name != want {
				t.Fatalf("%q declared %q: %s, want %s", body, server, name, want)
			}
		}
	})
}
