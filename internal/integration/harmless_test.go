package integration_test

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/records/sink"
)

// commanding is what a reader of records could take for an order: to a terminal, to a
// spreadsheet, to whoever reads line by line.
var commanding = map[string]string{
	"escape":             "\x1b[2J\x1b[31mred",
	"title of a window":  "\x1b]0;owned\a",
	"link in a terminal": "\x1b]8;;http://evil.test\x1b\\click",
	"C1 escape":          "\u009b31mred\u009d0;x\u009c",
	"overwritten line":   "bad\rgood\b\b\b",
	"two lines":          "one\ntwo\r\nthree\u2028four\u2029five\u0085six",
	"back to front":      "exe.\u202etxt\u202c \u2066x\u2069",
	"nothing":            "a\x00b\x7f",
	"formula":            "=cmd|' /C calc'!A0",
	"formula in space":   " \t=1+1",
	"sum":                "+1+cmd|' /C calc'!A0",
	"difference":         "-2+3",
	"macro":              "@SUM(1,2)",
	"wide formula":       "＝1+1",
	"quotes":             "\",\"=1\",\n\"",
	"no text":            "\xff\xfe\xc3(",
}

// hostilePages has each of them in every place of an answer that comes into a record.
func hostilePages(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, "/")
	if name == "" {
		for name := range commanding {
			fmt.Fprintf(w, "<a href='/%s'>x</a><a href='/moved-%[1]s'>x</a>", strings.ReplaceAll(name, " ", "_"))
		}
		return
	}
	name, moved := strings.CutPrefix(name, "moved-")
	s := commanding[strings.ReplaceAll(name, "_", " ")]
	oneLine := strings.Map(func(r rune) rune {
		if r == '\n' || r == '\r' || r == 0 {
			return ' '
		}
		return r
	}, s)
	h := w.Header()
	if controls := strings.ContainsFunc(oneLine, func(r rune) bool { return r < ' ' || r == 0x7f }); moved || !controls {
		h.Set("X-Robots-Tag", oneLine) // with controls the answer is an error, which has a message
		h.Set("Content-Language", oneLine)
		h.Set("Link", "</x>; rel=alternate; hreflang=\""+oneLine+"\"; type=\""+oneLine+"\"")
	}
	if moved {
		h.Set("Location", "http://[/"+oneLine)
		w.WriteHeader(http.StatusFound)
		return
	}
	h.Set("Content-Type", "text/html; charset=utf-8")
	attr := strings.ReplaceAll(s, "\"", "&quot;")
	fmt.Fprintf(w, `<title>%s</title><meta name=robots content="%s"><meta name=description content="%[2]s"><meta property=og:title content="%[2]s">`+
		`<link rel=alternate hreflang="%[2]s" type="%[2]s" href="?%[2]s"><a rel="nofollow" href="/n?%[2]s">x</a><p>%[1]s`, s, attr)
}

// What strangers write comes into no file in a form that its readers would obey.
func TestRecordsAreHarmless(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(hostilePages))
	defer server.Close()
	cfg := unpaced()
	cfg.Output.Record, cfg.Robots.Enabled = []string{"text"}, false
	var writers []*sink.Writer
	written := map[sink.Format]*bytes.Buffer{}
	for _, spec := range sink.Formats() {
		if spec.Lines() {
			written[spec.Format] = new(bytes.Buffer)
			w, err := sink.New(written[spec.Format], sink.Config{Format: spec.Format})
			require.NoError(t, err)
			writers = append(writers, w)
			cfg.Sinks = append(cfg.Sinks, w)
		}
	}
	got, _ := visit(t, cfg, server.URL+"/")
	for _, w := range writers {
		require.NoError(t, w.Close())
	}
	require.GreaterOrEqual(t, len(got), 1+2*len(commanding))
	for name, buf := range written {
		out, spec := buf.String(), name.Spec()
		require.True(t, utf8.ValidString(out), name)
		for i, r := range out {
			if r != '\n' && (r == 0 || r != rune(spec.Separator)) && (unicode.IsControl(r) || unicode.In(r, unicode.Zl, unicode.Zp) || unicode.Is(unicode.Bidi_Control, r)) {
				t.Fatalf("%s holds %U: %q", name, r, out[max(0, i-80):min(len(out), i+20)])
			}
		}
		extra := 0
		if spec.Separator != 0 {
			extra = 1 // its header
		}
		if spec.Reportable() {
			require.Equal(t, len(got)+extra, strings.Count(out, "\n"), "a record is a line of %s", name)
		}
	}
	requireNoFormula(t, written[sink.CSV].String())
	requireTitles(t, written[sink.JSONL].String())
}

// requireNoFormula reads the cells as a spreadsheet does.
func requireNoFormula(t *testing.T, text string) {
	t.Helper()
	rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	require.NoError(t, err)
	escaped := 0
	for _, row := range rows[1:] {
		for i, cell := range row {
			cell = strings.TrimLeft(cell, " ")
			if cell == "" {
				continue
			}
			if first, _ := utf8.DecodeRuneInString(cell); strings.ContainsRune("=+-@＝＋－＠", first) {
				t.Errorf("the column %s holds %q", rows[0][i], cell)
			}
			if cell[0] == '\'' {
				escaped++
			}
		}
	}
	require.GreaterOrEqual(t, escaped, 6, "and the formulas are there, as text")
}

// requireTitles holds that nothing was lost for it: what can be told in JSON is told.
func requireTitles(t *testing.T, text string) {
	t.Helper()
	var titles []string
	for line := range strings.Lines(text) {
		var rec sink.Record
		require.NoError(t, json.Unmarshal([]byte(line), &rec))
		if strings.HasPrefix(rec.URL, "http://") && rec.Title != "" {
			titles = append(titles, rec.Title)
		}
	}
	slices.Sort(titles)
	require.Contains(t, titles, commanding["escape"])
	require.Contains(t, titles, commanding["back to front"])
	require.Contains(t, titles, commanding["formula"])
}
