package sink

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/lab/docpage"
	"github.com/treadlight/crawl/internal/lab/recordtest"
	"github.com/treadlight/crawl/record"
)

// docs/reference/records.md has a row for each format.
func TestDocsHaveEveryFormat(t *testing.T) {
	table := "| `--format` | ending of `-o` | what is written |\n|---|---|---|\n"
	for _, spec := range Formats() {
		require.NotEmpty(t, spec.Help, spec.Format)
		endings := "a directory"
		if len(spec.Endings) > 0 {
			endings = "`" + strings.Join(spec.Endings, "` `") + "`"
		}
		table += fmt.Sprintf("| `%s` | %s | %s |\n", spec.Format, endings, spec.Help)
	}
	docpage.Check(t, "docs/reference/records.md", "formats", table)
}

// FuzzCSV: every record is one line with the header's columns, none a formula, and the text is there.
func FuzzCSV(f *testing.F) {
	recordtest.Seeds(f)
	f.Fuzz(func(t *testing.T, a, b, c string, n int64, flags uint8) {
		r := recordtest.Fuzzed(a, b, c, n, flags)
		for _, separator := range []byte{',', '\t'} {
			checkTable(t, table{separator: separator}, r, map[string]string{"url": a, "lang": b, "referrer": c})
		}
	})
}

// checkTable writes a record and reads it as a spreadsheet does.
func checkTable(t *testing.T, as table, r *record.Record, want map[string]string) {
	t.Helper()
	text := as.append(as.header(), r)
	line := text[len(as.header()):]
	recordtest.CheckLine(t, bytes.ReplaceAll(line, []byte{'\t'}, []byte{','}))
	in := csv.NewReader(bytes.NewReader(text))
	in.Comma = rune(as.separator)
	rows, err := in.ReadAll()
	if err != nil || len(rows) != 2 || len(rows[1]) != len(rows[0]) {
		t.Fatalf("%s\n%v, %v", text, rows, err)
	}
	for _, cell := range strings.Split(string(line), ";")[1:] {
		if isFormula(strings.TrimLeft(cell, `" `)) {
			t.Fatalf("behind a semicolon stands %q", cell)
		}
	}
	for i, cell := range rows[1] {
		name := rows[0][i]
		if isFormula(cell) && name != "depth" && name != "status" && name != "bytes" && name != "wire_bytes" {
			t.Fatalf("%s is %q", name, cell)
		}
		if want := want[name]; want != "" && strings.ReplaceAll(cell, "'", "") != strings.ReplaceAll(oneLine(want), "'", "") {
			t.Fatalf("%s is %q, want %q", name, cell, want)
		}
	}
}

func TestCSVGolden(t *testing.T) {
	r := recordtest.Full()
	r.Title = "=1+1, \"x\""
	r.Error.Message = "two\nlines"
	require.Equal(t, `https://example.com/a?b=c,page,200,2,https://example.com/,2026-11-20T16:39:01.234Z,1,https://example.com/z,text/html,utf-8,12345,2345,`+
		`true,sha256:00ff,changed,near,http://a.test/,"'=1+1, ""x""",de,d,noindex; max-snippet:20,2,1,0,[::1]:443,decode,two lines,0123`+"\n", string(csvTable.append(nil, r)))
	require.Equal(t, ",,,0,,0001-01-01T00:00:00.000Z,0,,,,0,0,false,,,,,,,,,0,0,0,,,,\n", string(csvTable.append(nil, &record.Record{})))
	for _, formula := range []string{"=a", "+a", "-a", "@a", "\t=a", " =a", "\r\n+a", "＝a"} {
		require.True(t, strings.HasPrefix(strings.Trim(string(csvTable.appendCell(nil, formula)), `"`), "'"), "%q", formula)
		// Where semicolons separate cells.
		cell := strings.Trim(string(csvTable.appendCell(nil, "a;"+formula+";b")), `"`)
		require.True(t, strings.HasPrefix(cell, "a;'"), "%q: %q", formula, cell)
	}
	require.Equal(t, "a-b", string(csvTable.appendCell(nil, "a-b")))
}

func TestURLsAreSuccessfulPages(t *testing.T) {
	tests := []struct {
		r    record.Record
		want string
	}{
		{record.Record{URL: "u", Kind: "page", Status: 200}, "u\n"},
		{record.Record{URL: "u", Status: 204}, "u\n"},
		{record.Record{URL: "u", Kind: "page", Status: 301}, ""},
		{record.Record{URL: "u", Kind: "page", Status: 404}, ""},
		{record.Record{URL: "u", Kind: "page"}, ""},
		{record.Record{URL: "u", Kind: "robots", Status: 200}, ""},
		{record.Record{URL: "u", Kind: "page", Status: 200, Error: &record.Error{}}, ""},
	}
	for _, tt := range tests {
		require.Equal(t, tt.want, string(appendURL(nil, &tt.r)), "%+v", tt.r)
	}
}

func TestID(t *testing.T) {
	// printf 'j\0page\0http://a.test/' | sha256sum
	require.Equal(t, "98942e506a1d9a44a78c802517f573e9", ID("j", "page", "http://a.test/"), "it is a promise to whoever has stored it")
	seen := make(map[string]bool)
	for _, parts := range [][3]string{{"j", "page", "http://a.test/"}, {"jp", "age", "http://a.test/"}, {"j", "pageh", "ttp://a.test/"}, {"j", "sitemap", "http://a.test/"}, {"", "page", "http://a.test/"}} {
		id := ID(parts[0], parts[1], parts[2])
		require.Regexp(t, "^[0-9a-f]{32}$", id)
		require.False(t, seen[id])
		seen[id] = true
	}
}
