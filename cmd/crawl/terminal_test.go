package main

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// screen is a terminal of so many columns that writes to a buffer.
func screen(columns int) (*terminal, *bytes.Buffer) {
	var b bytes.Buffer
	return &terminal{w: &b, width: func() int { return columns }}, &b
}

// A log line takes the place of the status line, which is drawn again below it.
func TestStatusLineAroundLogLines(t *testing.T) {
	term, b := screen(80)
	term.show("1s", "3 pages")
	_, err := io.WriteString(term, "a message\n")
	require.NoError(t, err)
	term.show("2s", "4 pages")
	term.clear()
	_, err = io.WriteString(term, "the end\n")
	require.NoError(t, err)
	require.Equal(t, clearLine+"1s  3 pages"+
		clearLine+"a message\n"+"1s  3 pages"+
		clearLine+"2s  4 pages"+
		clearLine+
		"the end\n", b.String())
}

// What a stranger wrote reaches the screen without the power to command it.
func TestTerminalIsClean(t *testing.T) {
	term, b := screen(80)
	hostile := "title \x1b]0;owned\a\n"
	n, err := io.WriteString(term, hostile)
	require.NoError(t, err)
	require.Equal(t, len(hostile), n, "the caller's bytes, not ours")
	term.show("host \x1b[31m", "two\nlines")
	require.Equal(t, "title �]0;owned�\n"+clearLine+"host �[31m  two lines", b.String())
}

// The line never reaches the last column, whatever the width and the text.
func TestStatusFits(t *testing.T) {
	parts := []string{"12s", "1,234 pages", "9.8/s", "567 queued", "8 active", "a.test: robots.txt cannot be had yet: 世界"}
	for columns := range 120 {
		line := fit(parts, columns-1)
		require.LessOrEqual(t, cells(line), max(columns-1, 0))
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
		require.Equal(t, want, fit(parts, columns-1), "%d columns", columns)
	}
}

func TestNoStatusLine(t *testing.T) {
	var b bytes.Buffer
	term := newTerminal(&b, []string{"TERM=xterm"}, "auto")
	term.show("1s")
	term.clear()
	require.False(t, term.live())
	require.Empty(t, b.String(), "a file has no status line")
	require.Equal(t, usualWidth, term.columns())
	require.True(t, newTerminal(&b, nil, "tty").live(), "unless it is asked for")
	require.Equal(t, io.Writer(&b), newTerminal(&b, nil, "tty").beside(&b), "a file is on no screen")
}

// Records on the same screen go above the status line, unchanged.
func TestRecordsOnTheScreen(t *testing.T) {
	term, b := screen(80)
	records := neighbour{term, b}
	_, err := io.WriteString(records, "one\n")
	require.NoError(t, err)
	term.show("1s")
	n, err := io.WriteString(records, "{\"url\":\"two\"}\n")
	require.NoError(t, err)
	require.Equal(t, 14, n)
	require.Equal(t, "one\n"+clearLine+"1s"+clearLine+"{\"url\":\"two\"}\n1s", b.String())
}

type brokenWriter struct{ err error }

func (w brokenWriter) Write([]byte) (int, error) { return 0, w.err }

func TestBrokenScreen(t *testing.T) {
	gone := errors.New("gone")
	term := &terminal{w: brokenWriter{gone}, width: func() int { return 80 }}
	_, err := io.WriteString(term, "x\n")
	require.ErrorIs(t, err, gone)
	term.show("1s") // nobody to tell
	_, err = io.WriteString(term, "x\n")
	require.ErrorIs(t, err, gone)
	_, err = io.WriteString(neighbour{term, io.Discard}, "x\n")
	require.ErrorIs(t, err, gone)
}
