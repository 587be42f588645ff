package jsontext

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestStringsAreSafe(t *testing.T) {
	for in, want := range map[string]string{
		"":                          `""`,
		`a"b\c/`:                    `"a\"b\\c/"`,
		"a\nb\rc\td":                `"a\nb\rc\td"`,
		"\x00\x1b[31m\x7f":          `"\u0000\u001b[31m\u007f"`,
		"\u009b31m":                 `"\u009b31m"`,
		"a\u2028b\u2029":            `"a\u2028b\u2029"`,
		"\u202etxt.exe":             `"\u202etxt.exe"`,
		"ü\u00a0日本😀\ufeff":          "\"ü\u00a0日本😀\ufeff\"",
		"\xff\xfea\xc3":             `"\ufffd\ufffda\ufffd"`,
		"<script>&'</script>":       `"<script>&'</script>"`,
		"\xed\xa0\x80":              `"\ufffd\ufffd\ufffd"`, // a surrogate is not UTF-8
		"\ufffd is a character too": "\"\ufffd is a character too\"",
	} {
		require.Equal(t, want, string(AppendString(nil, in)), "%q", in)
	}
}

func TestMillis(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0", 999: "0", time.Microsecond: "0.001", 120 * time.Microsecond: "0.12", time.Millisecond: "1",
		1100 * time.Microsecond: "1.1", 1010 * time.Microsecond: "1.01", time.Hour: "3600000", 12345678 * time.Microsecond: "12345.678",
	} {
		require.Equal(t, want, string(AppendMillis(nil, d)), d)
	}
}

// Strings are looked at a word at a time first: whatever byte stands wherever in one, what is written is JSON that
// says the same, and holds nothing that a terminal would obey.
func TestEveryByteAtEveryPlaceOfAWord(t *testing.T) {
	for c := range 256 {
		for at := range 17 {
			s := []byte(strings.Repeat("a", 17))
			s[at] = byte(c)
			out := AppendString(nil, string(s))
			var back string
			require.NoError(t, json.Unmarshal(out, &back), "%q", s)
			require.Equal(t, strings.ToValidUTF8(string(s), "\ufffd"), back)
			for _, b := range out {
				require.False(t, b < ' ' || b == 0x7f, "%q", out)
			}
			require.Equal(t, plain[c], string(out) == `"`+string(s)+`"`, "%q: %q", s, out)
		}
	}
}
