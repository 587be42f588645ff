package cli

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// newScreen is a terminal of so many columns that writes to a buffer.
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

// What a stranger wrote reaches the screen without the power to command it.
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
		60:  "12s  1,234 pages  9.8/s  567 queued  8 active", // too little is left for a sentence
		40:  "12s  1,234 pages  9.8/s  567 queued",           // a number is whole or not there
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
	term.Show("1s") // nobody to tell
	_, err = io.WriteString(term, "x\n")
	require.ErrorIs(t, err, gone)
	_, err = io.WriteString(neighbour{term, io.Discard}, "x\n")
	require.ErrorIs(t, err, gone)
}
