package chardet

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/html/charset"
)

// written are the samples and the encodings that pages in their languages are found in.
var written = []struct{ sample, encodings string }{
	{"ru", "windows-1251 koi8-r iso-8859-5 ibm866"},
	{"uk", "windows-1251 koi8-u iso-8859-5"},
	{"bg", "windows-1251 iso-8859-5"},
	{"el", "windows-1253 iso-8859-7"},
	{"he", "windows-1255"},
	{"ar", "windows-1256 iso-8859-6"},
	{"th", "windows-874"},
	{"tr", "windows-1254"},
	{"pl", "windows-1250 iso-8859-2"},
	{"cs", "windows-1250 iso-8859-2"},
	{"hu", "windows-1250 iso-8859-2"},
	{"de", "windows-1252"},
	{"fr", "windows-1252"},
	{"es", "windows-1252"},
	{"pt", "windows-1252"},
	{"sv", "windows-1252"},
	{"lt", "windows-1257"},
	{"ja", "shift_jis euc-jp iso-2022-jp"},
	{"zh-hans", "gbk"},
	{"zh-hant", "big5"},
	{"ko", "euc-kr"},
}

func sample(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../../testdata/conformance/charset", name+".txt"))
	require.NoError(t, err)
	return strings.TrimSpace(string(text))
}

func encode(t testing.TB, name, text string) []byte {
	t.Helper()
	enc, _ := charset.Lookup(name)
	require.NotNil(t, enc, name)
	whole, err := enc.NewEncoder().String(text)
	if err == nil {
		return []byte(whole)
	}
	var b strings.Builder
	for _, r := range text {
		s, err := enc.NewEncoder().String(string(r))
		if err != nil || strings.HasPrefix(s, "&#") {
			s = "?"
		}
		b.WriteString(s)
	}
	return []byte(b.String())
}

func decode(t testing.TB, name string, b []byte) string {
	t.Helper()
	enc, _ := charset.Lookup(name)
	require.NotNil(t, enc, name)
	s, err := enc.NewDecoder().Bytes(b)
	require.NoError(t, err)
	return string(s)
}

func pieces(text string, size int) (all []string) {
	runes := []rune(text)
	for len(runes) >= size {
		all = append(all, string(runes[:size]))
		runes = runes[size:]
	}
	return all
}

// TestAccuracy guesses samples and pieces of them, and holds what was guessed to be right if the text reads the same
// in it. Pieces without a character beyond ASCII are left out.
func TestAccuracy(t *testing.T) {
	for _, size := range []struct {
		name  string
		runes int
		bar   float64
	}{{"whole samples", 0, 1}, {"60 characters", 60, 0.97}, {"20 characters", 20, 0.92}, {"8 characters", 8, 0.88}} {
		t.Run(size.name, func(t *testing.T) {
			right, total := 0, 0
			var wrong []string
			for _, w := range written {
				text := sample(t, w.sample)
				parts := []string{text}
				if size.runes > 0 {
					parts = pieces(text, size.runes)
				}
				for enc := range strings.FieldsSeq(w.encodings) {
					good, all := 0, 0
					for _, part := range parts {
						body := encode(t, enc, part)
						if utf8.Valid(body) && enc != "iso-2022-jp" {
							continue
						}
						all++
						got := Detect(body)
						if decode(t, got, body) == decode(t, enc, body) {
							good++
						} else if size.runes >= 60 || size.runes == 0 {
							wrong = append(wrong, fmt.Sprintf("%s in %s as %s: %s", w.sample, enc, got, part))
						}
					}
					t.Logf("%-8s %-15s %3d of %3d", w.sample, enc, good, all)
					right, total = right+good, total+all
				}
			}
			t.Logf("%s: %d of %d right, %.1f %%", size.name, right, total, 100*float64(right)/float64(total))
			require.GreaterOrEqual(t, float64(right), size.bar*float64(total), strings.Join(wrong, "\n"))
		})
	}
}

// Markup around the text changes nothing.
func TestInMarkup(t *testing.T) {
	for _, w := range written {
		text := strings.ReplaceAll(sample(t, w.sample), " ", "</b> <b class=x>")
		page := "<!doctype html><html><head><title>" + string([]rune(text)[:40]) + "</title><script>var x = 'y';</script></head><body>" + text + "</body></html>"
		for enc := range strings.FieldsSeq(w.encodings) {
			body := encode(t, enc, page)
			require.Equal(t, decode(t, enc, body), decode(t, Detect(body), body), "%s in %s", w.sample, enc)
		}
	}
}

// What has a few signs only is what pages of western languages are in.
func TestLittleToGoBy(t *testing.T) {
	for text, want := range map[string]string{
		"\xa9 2024 Somebody": Default, "caf\xe9": Default, "10 \x80": Default, "it\x92s": Default, "\x93quoted\x94 \x96 text": Default,
		"a\xa0b\xa0c": Default, "\xbfQu\xe9?": Default, "Stra\xdfe": Default, "\xff": Default,
		"plain": "utf-8", "": "utf-8",
		"\xcf\xf0\xe8\xe2\xe5\xf2": "windows-1251", // Привет
	} {
		require.Equal(t, want, Detect([]byte(text)), "%q", text)
	}
}

func TestForms(t *testing.T) {
	for text, want := range map[string]string{
		"Gr\xc3\xbcn, gr\xc3\xbcner, am gr\xc3":  "utf-8", // cut off
		strings.Repeat("\xc3\xbc", 10) + " \xff": "utf-8", // one in ten
		"Gr\xfcn \xc3\xbc \xe4":                  Default,
		"\xc3":                                   Default,
		"<\x00p\x00>\x00a\x00\xe9\x00b\x00":      "utf-16le",
		"\x00<\x00p\x00>\x00a\x00\xe9\x00b":      "utf-16be",
		"<\x00p>\x00\x00a":                       "utf-8", // zeros in no order: ASCII
		"a\x1b$B$\"\x1b(B":                       "iso-2022-jp",
		"a\x1b$B\xe9":                            Default,
		"\x1b[31m":                               "utf-8",
	} {
		require.Equal(t, want, Detect([]byte(text)), "%q", text)
	}
}

// Every encoding that can be guessed is one that can be read.
func TestNames(t *testing.T) {
	names := []string{"utf-8", "utf-16le", "utf-16be", "iso-2022-jp"}
	for _, m := range models() {
		names = append(names, m.name)
	}
	for _, name := range names {
		enc, canonical := charset.Lookup(name)
		require.NotNil(t, enc, name)
		require.Equal(t, name, canonical)
	}
}

// FuzzDetect: any bytes have an encoding, and the same one each time.
func FuzzDetect(f *testing.F) {
	f.Add([]byte("\xcf\xf0\xe8\xe2\xe5\xf2"))
	f.Add([]byte("\x82\xa0\x82\xa2\x1b$B"))
	f.Fuzz(func(t *testing.T, text []byte) {
		name := Detect(text)
		enc, _ := charset.Lookup(name)
		require.NotNil(t, enc, name)
		require.Equal(t, name, Detect(text))
		if utf8.Valid(text) && !strings.ContainsAny(string(text), "\x00\x1b") {
			require.Equal(t, "utf-8", name)
		}
	})
}
