package sink

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// cellsOf reads lines of CSV as a spreadsheet does, by the names of their columns.
func cellsOf(t testing.TB, text string) (rows []map[string]string) {
	t.Helper()
	lines, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	require.NoError(t, err)
	for _, line := range lines[1:] {
		row := map[string]string{}
		for i, name := range lines[0] {
			row[name] = line[i]
		}
		require.Len(t, row, len(lines[0]), "no two columns have one name")
		rows = append(rows, row)
	}
	return rows
}

// A column for each field, whatever a page has of it.
func TestFieldsInCSV(t *testing.T) {
	var out bytes.Buffer
	w, err := New(&out, Config{Format: CSV, Fields: []string{"title", "tags", "price", "id"}})
	require.NoError(t, err)
	for _, fields := range []Named{
		nil,
		{{Name: "tags", Values: []string{"a,b", `say "x"`, "two\nlines", "=1+1;=2"}, List: true}, {Name: "title", Values: []string{"T"}}},
		{{Name: "tags", Values: []string{"one"}, List: true}, {Name: "price", Values: []string{"-12.50"}, Number: true}},
		{{Name: "title", Values: []string{"=HYPERLINK(1);@x"}}, {Name: "price", Values: []string{"=1"}, Number: true}, {Name: "id", Values: []string{" +1\n"}}},
		{{Name: "price", Values: []string{"1", "2.5"}, List: true, Number: true}, {Name: "title"}, {Name: "other", Values: []string{"x"}}},
	} {
		require.NoError(t, w.Write(&Record{URL: "http://a.test/", ID: "i", Fields: fields}))
	}
	require.NoError(t, w.Close())
	rows := cellsOf(t, out.String())
	want := [][4]string{
		{"", "", "", ""},
		{"T", `["a,b","say \"x\"","two\nlines","=1+1;'=2"]`, "", ""},
		{"", `["one"]`, "-12.50", ""},
		{"'=HYPERLINK(1);'@x", "", "'=1", "' +1 "},
		{"", "", "[1,2.5]", ""},
	}
	require.Len(t, rows, len(want))
	for i, row := range rows {
		require.Equal(t, want[i], [4]string{row["field_title"], row["field_tags"], row["field_price"], row["field_id"]}, "row %d", i)
		require.Equal(t, "http://a.test/", row["url"])
		require.Equal(t, "i", row["id"])
	}
}

// The header line stays what it is, and is there once, also where nothing can be looked at.
func TestFieldsInCSVResumed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "records.csv")
	cfg := Config{Format: CSV, Fields: []string{"title"}}
	w, err := Open(path, cfg)
	require.NoError(t, err)
	rec := &Record{URL: "http://a.test/", Fields: Named{{Name: "title", Values: []string{"T"}}}}
	require.NoError(t, w.Write(rec))
	require.NoError(t, w.Close())
	mark := w.Mark()
	cfg.Existing, cfg.Position, cfg.Records = Resume, mark.Bytes, mark.Records
	for _, fields := range [][]string{nil, {"other"}, {"title", "other"}, {"titl"}} {
		other := cfg
		other.Fields = fields
		_, err = Open(path, other)
		require.ErrorContains(t, err, "has other columns than its next lines would have: give the same --field as before", fields)
	}
	w, err = Open(path, cfg)
	require.NoError(t, err)
	require.NoError(t, w.Write(rec))
	require.NoError(t, w.Close())
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Len(t, cellsOf(t, string(text)), 2)

	var out bytes.Buffer
	for _, existing := range []Existing{Refuse, Resume} {
		w, err := New(&out, Config{Format: CSV, Fields: cfg.Fields, Existing: existing, Position: int64(out.Len())})
		require.NoError(t, err)
		require.NoError(t, w.Write(rec))
		require.NoError(t, w.Close())
	}
	require.Equal(t, string(text), out.String())
}

// A field of all values is JSON whatever is in it, and every cell one cell.
func FuzzFieldsInCSV(f *testing.F) {
	f.Add("a", `b"`, true)
	f.Add("=x;=y", ",\n;", false)
	f.Fuzz(func(t *testing.T, a, b string, list bool) {
		r := &Record{URL: "http://a.test/", Fields: Named{{Name: "f", Values: []string{a, b}, List: list}}}
		as := table{separator: ',', fields: []string{"f"}}
		text := as.append(as.header(), r)
		rows := cellsOf(t, string(text))
		require.Len(t, rows, 1)
		cell := rows[0]["field_f"]
		require.False(t, isFormula(cell), cell)
		if list {
			var values []string
			require.NoError(t, json.Unmarshal([]byte(cell), &values), cell)
			require.Len(t, values, 2)
		}
	})
}

// csvTable writes CSV without the user's fields.
var csvTable = table{separator: ','}
