package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/config"
)

func TestClean(t *testing.T) {
	for in, want := range map[string]string{
		"plain\ntext":              "plain\ntext",
		"\x1b[2Jgone":              "�[2Jgone",
		"\u009b31mred":             "�31mred", // the same escape in one C1 control
		"bell\a, tab\t, return\r":  "bell�, tab�, return�",
		"exe.\u202etxt":            "exe.�txt", // would be shown backwards
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
		{"世界世界", 6, "世界…"}, // half of a wide character cannot be shown
		{"e\u0301e\u0301e\u0301", 3, "e\u0301e\u0301e\u0301"},
	} {
		require.Equal(t, c.want, Cut(c.in, c.n), "%q to %d columns", c.in, c.n)
	}
}

// Text that was cut fits. Cleaned text is unchanged by another cleaning.
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
		0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1536: "1.5 KiB", 1 << 20: "1.0 MiB", 1 << 62: "4.0 EiB", math.MaxInt64: "8.0 EiB",
	} {
		require.Equal(t, want, Size(in))
	}
	require.Equal(t, "1 page", Plural(1, "page"))
	require.Equal(t, "0 pages", Plural(0, "page"))
	require.Equal(t, "1 retry, 2 retries", Plural(1, "retry")+", "+Plural(2, "retry"))
	require.Equal(t, "1,000 pages", Plural(1000, "page"))
}

func TestWrap(t *testing.T) {
	require.Equal(t, []string{"a few", "words"}, Wrap("a few  words", 6))
	require.Equal(t, []string{"unbreakable", "x"}, Wrap("unbreakable x", 3))
	require.Equal(t, []string{""}, Wrap("", 3))
}

func newScreen(columns int) (*Terminal, *bytes.Buffer) {
	var b bytes.Buffer
	return &Terminal{w: &b, width: func() int { return columns }}, &b
}

// A log line takes the place of the status line, which is drawn again below it.
func TestStatusLineAroundLogLines(t *testing.T) {
	term, b := newScreen(80)
	term.Show("1s", "3 pages")
	_, err := io.WriteString(term, "a message\n")
	require.NoError(t, err)
	term.Show("2s", "4 pages")
	term.Clear()
	_, err = io.WriteString(term, "the end\n")
	require.NoError(t, err)
	require.Equal(t, ClearLine+"1s  3 pages"+
		ClearLine+"a message\n"+"1s  3 pages"+
		ClearLine+"2s  4 pages"+
		ClearLine+
		"the end\n", b.String())
}

// Foreign text reaches the screen without control sequences.
func TestTerminalIsClean(t *testing.T) {
	term, b := newScreen(80)
	hostile := "title \x1b]0;owned\a\n"
	n, err := io.WriteString(term, hostile)
	require.NoError(t, err)
	require.Equal(t, len(hostile), n, "the caller's bytes, not ours")
	term.Show("host \x1b[31m", "two\nlines")
	require.Equal(t, "title �]0;owned�\n"+ClearLine+"host �[31m  two lines", b.String())
}

// The line never reaches the last column, whatever the width and the text.
func TestStatusFits(t *testing.T) {
	parts := []string{"12s", "1,234 pages", "9.8/s", "567 queued", "8 active", "a.test: robots.txt cannot be had yet: 世界"}
	for columns := range 120 {
		line := Fit(parts, columns-1)
		require.LessOrEqual(t, Cells(line), max(columns-1, 0))
		require.Equal(t, strings.TrimRight(line, " "), line)
	}
	for columns, want := range map[int]string{
		100: "12s  1,234 pages  9.8/s  567 queued  8 active  a.test: robots.txt cannot be had yet: 世界",
		80:  "12s  1,234 pages  9.8/s  567 queued  8 active  a.test: robots.txt cannot be ha…",
		60:  "12s  1,234 pages  9.8/s  567 queued  8 active", // too little room is left for a sentence
		40:  "12s  1,234 pages  9.8/s  567 queued",           // a number is shown whole or not at all
		12:  "12s",
		3:   "1…",
		1:   "",
		0:   "",
	} {
		require.Equal(t, want, Fit(parts, columns-1), "%d columns", columns)
	}
}

func TestNoStatusLine(t *testing.T) {
	var b bytes.Buffer
	term := NewTerminal(&b, []string{"TERM=xterm"}, "auto")
	term.Show("1s")
	term.Clear()
	require.False(t, term.Live())
	require.Empty(t, b.String(), "a file has no status line")
	require.Equal(t, UsualWidth, term.Columns())
	require.True(t, NewTerminal(&b, nil, "tty").Live(), "unless it is asked for")
	require.Equal(t, io.Writer(&b), NewTerminal(&b, nil, "tty").Beside(&b), "a file is on no screen")
}

// Records on the same screen go above the status line, unchanged.
func TestRecordsOnTheScreen(t *testing.T) {
	term, b := newScreen(80)
	records := neighbour{term, b}
	_, err := io.WriteString(records, "one\n")
	require.NoError(t, err)
	term.Show("1s")
	n, err := io.WriteString(records, "{\"url\":\"two\"}\n")
	require.NoError(t, err)
	require.Equal(t, 14, n)
	require.Equal(t, "one\n"+ClearLine+"1s"+ClearLine+"{\"url\":\"two\"}\n1s", b.String())
}

type failingWriter struct{ err error }

func (w failingWriter) Write([]byte) (int, error) { return 0, w.err }

func TestBrokenScreen(t *testing.T) {
	gone := errors.New("gone")
	term := &Terminal{w: failingWriter{gone}, width: func() int { return 80 }}
	_, err := io.WriteString(term, "x\n")
	require.ErrorIs(t, err, gone)
	term.Show("1s") // a failure could be reported to nobody
	_, err = io.WriteString(term, "x\n")
	require.ErrorIs(t, err, gone)
	_, err = io.WriteString(neighbour{term, io.Discard}, "x\n")
	require.ErrorIs(t, err, gone)
}

func TestLogLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // the bubble's clock begins at a known time
		var b bytes.Buffer
		log := slog.New(NewLineHandler(&b, slog.LevelInfo, time.TimeOnly))
		now := time.Now().Format(time.TimeOnly)
		log.Debug("not shown")
		log.Info("without attributes")
		log.With(slog.Int("a", 1)).WithGroup("g").Error("a message", slog.Any("error", errors.New("two\nlines \x1b[2J")))
		log.Info("a key of ours", slog.String("msg", "kept"), slog.Group("g", slog.String("time", "kept")))
		require.Equal(t, now+" without attributes\n"+
			now+` error: a message  a=1 g.error="two\nlines \x1b[2J"`+"\n"+
			now+" a key of ours  g.time=kept\n", b.String())
	})
}

// A warning about one subject is written once a minute, others at once.
func TestRepeatedWarnings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for level, want := range map[slog.Level]int{slog.LevelInfo: 4, slog.LevelDebug: 122} {
			var b bytes.Buffer
			log := slog.New(NewLineHandler(&b, level, time.TimeOnly))
			for i := range 120 {
				log.Warn("down", slog.String("host", "a.test"), slog.Int("attempt", i))
				time.Sleep(time.Second)
			}
			log.Warn("down", slog.String("host", "b.test"))
			log.Warn("up", slog.String("host", "a.test"))
			require.Equal(t, want, bytes.Count(b.Bytes(), []byte("\n")), level)
		}
	})
}

// The memory of warnings is bounded.
func TestToldIsBounded(t *testing.T) {
	h := NewLineHandler(&bytes.Buffer{}, slog.LevelInfo, time.TimeOnly).(*lineHandler)
	for i := range 3 * maxTold {
		slog.New(h).Warn("down", slog.String("host", fmt.Sprint(i)))
		require.LessOrEqual(t, len(h.told), maxTold)
	}
}

func TestLoggerFormats(t *testing.T) {
	var b bytes.Buffer
	NewLogger(&Terminal{w: &b}, &config.Log{Format: "json"}, slog.LevelWarn).Warn("for machines")
	require.Contains(t, b.String(), `"level":"WARN","msg":"for machines"`)
	b.Reset()
	NewLogger(&Terminal{w: &b}, &config.Log{}, slog.LevelWarn).Warn("for a file")
	require.Regexp(t, `^\d{4}-\d\d-\d\dT\S+ warn: for a file\n$`, b.String())
	b.Reset()
	NewLogger(&Terminal{w: &b, width: func() int { return 80 }}, &config.Log{}, slog.LevelWarn).Warn("for a person")
	require.Regexp(t, `^\d\d:\d\d:\d\d warn: for a person\n$`, b.String())
}

// The line changes at most twice a second, whoever calls.
func TestRefresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		term := NewTerminal(&b, nil, "tty")
		term.Refresh("a")
		require.Empty(t, b.String())
		time.Sleep(StatusEvery)
		term.Refresh("b")
		term.Refresh("c")
		require.Equal(t, ClearLine+"b", b.String())
	})
}
