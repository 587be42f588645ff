package cli

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func TestClean(t *testing.T) {
	for in, want := range map[string]string{
		"plain\ntext":              "plain\ntext",
		"\x1b[2Jgone":              "�[2Jgone",
		"\u009b31mred":             "�31mred", // the same escape in one C1 control
		"bell\a, tab\t, return\r":  "bell�, tab�, return�",
		"exe.\u202etxt":            "exe.�txt", // would be shown back to front
		"invalid \xff\xfe":         "invalid ��",
		"Grüße, 世界 👋":              "Grüße, 世界 👋",
		"zero\u200bwidth \u2028ls": "zero�width �ls",
	} {
		require.Equal(t, want, Clean(in))
	}
}

func TestCut(t *testing.T) {
	for _, c := range []struct {
		in   string
		n    int
		want string
	}{
		{"host.test", 9, "host.test"},
		{"host.test", 8, "host.te…"},
		{"host.test", 1, "…"},
		{"host.test", 0, ""},
		{"host.test", -3, ""},
		{"two words", 5, "two…"}, // no space before the ellipsis
		{"世界世界", 8, "世界世界"},
		{"世界世界", 7, "世界世…"},
		{"世界世界", 6, "世界…"}, // half a character cannot be shown
		{"e\u0301e\u0301e\u0301", 3, "e\u0301e\u0301e\u0301"},
	} {
		require.Equal(t, c.want, Cut(c.in, c.n), "%q to %d columns", c.in, c.n)
	}
}

// What is cut fits; what is clean is shown as it is, and stays clean.
func FuzzText(f *testing.F) {
	f.Add("a\x1b[2J世界\u202e", 4)
	f.Add(strings.Repeat("é", 100), 80)
	f.Fuzz(func(t *testing.T, s string, n int) {
		s = Clean(s)
		require.Equal(t, s, Clean(s))
		require.NotContains(t, s, "\x1b")
		short := Cut(s, n)
		require.LessOrEqual(t, Cells(short), max(n, 0))
		require.True(t, utf8.ValidString(short))
	})
}

func TestNumbers(t *testing.T) {
	for in, want := range map[float64]string{
		-1: "0.0s", 0: "0.0s", 0.44: "0.4s", 0.999: "1.0s", 1: "1s", 1.9: "1s", 59.9: "59s",
		60: "1m00s", 247: "4m07s", 3599.9: "59m59s", 7500: "2h05m", 360000: "100h00m",
	} {
		require.Equal(t, want, Seconds(in), in)
	}
	for in, want := range map[int64]string{
		0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -123: "-123", -1234: "-1,234",
	} {
		require.Equal(t, want, Count(in))
	}
	for in, want := range map[int64]string{
		0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1536: "1.5 KiB", 1 << 20: "1.0 MiB", 1 << 62: "4.0 EiB",
	} {
		require.Equal(t, want, Size(in))
	}
	require.Equal(t, "1 page", Plural(1, "page"))
	require.Equal(t, "0 pages", Plural(0, "page"))
	require.Equal(t, "1,000 pages", Plural(1000, "page"))
}

func TestWrap(t *testing.T) {
	require.Equal(t, []string{"a few", "words"}, Wrap("a few  words", 6))
	require.Equal(t, []string{"unbreakable", "x"}, Wrap("unbreakable x", 3))
	require.Equal(t, []string{""}, Wrap("", 3))
}
