package recordfile_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/records/recordfile"
)

// read is the lines of a file that holds that, with what is said of each.
func read(t *testing.T, content string, size int64, maxLine int) (lines []string, cut bool) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "f")
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	r, err := recordfile.Open(path, size)
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Close()) }()
	require.True(t, r.Regular)
	err = r.Each(t.Context(), maxLine, func(l recordfile.Line) error {
		s := string(l.Text)
		if l.Long {
			s = "LONG"
		}
		if !l.Whole {
			s += "…"
		}
		lines = append(lines, s)
		return nil
	})
	require.NoError(t, err)
	_, err = r.Next(0)
	require.ErrorIs(t, err, io.EOF, "the end stays the end")
	return lines, r.Cut()
}

func TestLines(t *testing.T) {
	long := strings.Repeat("x", 5000)
	for content, want := range map[string][]string{
		"":                       nil,
		"\n\n \r\n":              nil,
		"a\nb\n":                 {"a", "b"},
		"a\r\n\n b \nc":          {"a", "b", "c…"},
		"\ta\t\t\r\n\t\n":        {"a\t\t"}, // cells of a table that are empty
		"a\n" + long + "\nb\n":   {"a", "LONG", "b"},
		"a\n" + long:             {"a", "LONG…"},
		"\x00\xff\n\x1f\x8b\x08": {"\x00\xff", "\x1f\x8b\x08…"},
	} {
		lines, cut := read(t, content, 0, 4500)
		require.Equal(t, want, lines, "%.20q", content)
		require.False(t, cut)
	}
	lines, _ := read(t, "a\nbcd\n", 4, 0)
	require.Equal(t, []string{"a", "bc…"}, lines, "what was written since is not looked at")
}

func TestGzipThatIsCut(t *testing.T) {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = io.WriteString(w, "a\nb\n")
	require.NoError(t, w.Close())
	lines, cut := read(t, b.String(), 0, 0)
	require.Equal(t, []string{"a", "b"}, lines)
	require.False(t, cut)
	for n := 1; n < b.Len()-10; n++ {
		_, cut := read(t, b.String()[:b.Len()-n], 0, 0)
		require.True(t, cut, n)
	}
	_, cut = read(t, b.String()+"more", 0, 0)
	require.True(t, cut)
	_, cut = read(t, b.String()+b.String(), 0, 0)
	require.False(t, cut, "of several members all are read")
}

func TestErrors(t *testing.T) {
	_, err := recordfile.Open(filepath.Join(t.TempDir(), "none"), 0)
	require.ErrorIs(t, err, os.ErrNotExist)
	path := filepath.Join(t.TempDir(), "f")
	require.NoError(t, os.WriteFile(path, []byte("\x1f\x8b\x00\x00\x00\x00\x00\x00\x00\x00\x00"), 0o600))
	_, err = recordfile.Open(path, 0)
	require.ErrorIs(t, err, gzip.ErrHeader)

	require.NoError(t, os.WriteFile(path, []byte(strings.Repeat("a\n", 3000)), 0o600))
	r, err := recordfile.Open(path, 0)
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Close()) }()
	stop := errors.New("enough")
	require.ErrorIs(t, r.Each(t.Context(), 0, func(recordfile.Line) error { return stop }), stop)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, r.Each(ctx, 0, func(recordfile.Line) error { return nil }), context.Canceled)
	require.Positive(t, r.Done())
}

func TestTable(t *testing.T) {
	_, err := recordfile.NewTable([]byte("url,n"), ',', "url", "x", "y")
	require.EqualError(t, err, "its first line has no column x, y")
	table, err := recordfile.NewTable([]byte("url,n"), ',', "url")
	require.NoError(t, err)
	decode := func(text string) (url string, n float64, err error) {
		err = recordfile.Decode(recordfile.Line{Text: []byte(text)}, table, nil, func() { url, n = table.Text("url"), table.Number("n")+table.Number("none") })
		return url, n, err
	}
	url, n, err := decode(`"'=a, ""b""",2.5`)
	require.NoError(t, err)
	require.Equal(t, `=a, "b"`, url)
	require.InDelta(t, 2.5, n, 0)
	_, _, err = decode("a")
	require.ErrorIs(t, err, recordfile.ErrColumns)
	_, n, err = decode("a,b")
	require.Zero(t, n)
	require.EqualError(t, err, `n is "b": it is no number`)

	table, err = recordfile.NewTable([]byte("fetched_at"), ',')
	require.NoError(t, err)
	for text, want := range map[string]string{"2026-01-02T03:04:05Z": "", "soon": "fetched_at: "} {
		err := recordfile.Decode(recordfile.Line{Text: []byte(text)}, table, nil, func() { require.Equal(t, want != "", table.Time().IsZero()) })
		require.Equal(t, want == "", err == nil, text)
	}
	var v struct{ URL string }
	require.NoError(t, recordfile.Decode(recordfile.Line{Text: []byte(`{"url":"u"}`)}, nil, &v, nil))
	require.Equal(t, "u", v.URL)
	require.ErrorIs(t, recordfile.Decode(recordfile.Line{Long: true}, nil, &v, nil), recordfile.ErrLong)
}
