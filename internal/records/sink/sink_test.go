package sink

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/lab/recordtest"
	"github.com/treadlight/crawl/record"
)

func page(i int) *record.Record {
	return &record.Record{URL: fmt.Sprintf("https://example.com/%d", i), Kind: "page", Status: 200, Title: strings.Repeat("t", i)}
}

func jsonl(t *testing.T, to io.Writer) *Writer {
	t.Helper()
	w := must(New(to, Config{}))
	return w
}

func TestWriterBuffers(t *testing.T) {
	var out bytes.Buffer
	w := jsonl(t, &out)
	require.NoError(t, w.Write(page(1)))
	require.Zero(t, out.Len(), "before a flush")
	require.Zero(t, w.Position())
	require.NoError(t, w.Flush())
	require.Equal(t, 1, strings.Count(out.String(), "\n"))
	require.EqualValues(t, out.Len(), w.Position())

	big := page(2)
	big.Text = strings.Repeat("x", flushSize)
	require.NoError(t, w.Write(big))
	require.EqualValues(t, 2, w.Mark().Records, "a full buffer is flushed")
	require.NoError(t, w.Flush())
	require.NoError(t, w.Close())
	require.NoError(t, w.Close())
	require.ErrorIs(t, w.Write(page(3)), errClosed)
	require.ErrorIs(t, w.Flush(), errClosed)
}

func TestFormats(t *testing.T) {
	for f, want := range map[Format]string{
		"":    `{"url":"https://example.com/1"`,
		JSONL: `{"url":"https://example.com/1"`,
		CSV:   csvColumns + "\nhttps://example.com/1,page,200",
		URLs:  "https://example.com/1\nhttps://example.com/2\n",
	} {
		var out bytes.Buffer
		w := must(New(&out, Config{Format: f}))
		require.NoError(t, w.Write(page(1)))
		require.NoError(t, w.Write(&record.Record{URL: "x", Kind: "page", Status: 500}))
		require.NoError(t, w.Write(page(2)))
		require.NoError(t, w.Close())
		require.True(t, strings.HasPrefix(out.String(), want), "%s: %s", f, out.String())
	}
	_, err := New(io.Discard, Config{Format: "xml"})
	require.EqualError(t, err, `format "xml": use jsonl, csv or urls`)
	_, err = Open(filepath.Join(t.TempDir(), "x"), Config{Format: "xml"})
	require.ErrorContains(t, err, "use jsonl, csv or urls")
}

// Whatever there is to know of a format is in its row, and no two rows say the same.
func TestSpecs(t *testing.T) {
	require.Equal(t, JSONL, Format("").Spec().Format)
	require.Zero(t, Format("xml").Spec().Format)
	require.Zero(t, ByEnding(".xml").Format)
	require.Zero(t, ByStart([]byte("\n \n")).Format)
	require.Zero(t, ByStart([]byte("<html>")).Format)
	for _, spec := range Formats() {
		for _, ending := range spec.Endings {
			require.Equal(t, spec.Format, ByEnding(ending).Format, ending)
		}
		require.Equal(t, spec.Format, spec.Format.Spec().Format)
		if !spec.Lines() {
			continue
		}
		var out bytes.Buffer
		w := must(New(&out, Config{Format: spec.Format}))
		require.NoError(t, w.Write(page(1)))
		require.NoError(t, w.Close())
		require.Equal(t, spec.Format, ByStart(out.Bytes()).Format, "a file that begins with %q", out.String())
	}
	require.Contains(t, EndingList(" or "), " or .warc")
}

// cutter writes to a file until its room is used up, and fails as a full disk does.
type cutter struct {
	f    *os.File
	room int
}

func (c *cutter) Write(p []byte) (int, error) {
	n, err := c.f.Write(p[:min(len(p), c.room)])
	c.room -= n
	if err == nil && n < len(p) {
		err = syscall.ENOSPC
	}
	return n, err
}

// TestFullDiskAtEveryByte runs out of room at every offset of a file: it always ends in a whole line, and the error
// counts them.
func TestFullDiskAtEveryByte(t *testing.T) {
	const records = 3
	for _, spec := range Formats() {
		if !spec.Lines() {
			continue
		}
		format := spec.Format
		var whole bytes.Buffer
		w := must(New(&whole, Config{Format: format}))
		for i := range records {
			require.NoError(t, w.Write(page(i)))
		}
		require.NoError(t, w.Close())
		header := 0
		if spec.Separator != 0 {
			header = 1
		}
		path := filepath.Join(t.TempDir(), "out")
		for room := range whole.Len() {
			for _, each := range []bool{true, false} { // a flush per record, or one
				checkCut(t, path, format, whole.Bytes(), room, header, each)
			}
		}
	}
}

func checkCut(t *testing.T, path string, format Format, whole []byte, room, header int, each bool) {
	t.Helper()
	w := must(Open(path, Config{Format: format, Existing: Overwrite}))
	w.out = &cutter{w.file, room}
	var failure error
	for i := 0; i < 3 && failure == nil; i++ {
		failure = w.Write(page(i))
		if each && failure == nil {
			failure = w.Flush()
		}
	}
	if failure == nil {
		failure = w.Flush()
	}
	var we *WriteError
	require.ErrorAs(t, failure, &we)
	require.ErrorIs(t, failure, syscall.ENOSPC)
	got := must(os.ReadFile(path))
	want := whole[:bytes.LastIndexByte(whole[:room], '\n')+1]
	require.Equal(t, string(want), string(got), "%s with room for %d", format, room)
	require.EqualValues(t, len(want), we.Bytes)
	require.EqualValues(t, max(0, bytes.Count(want, []byte("\n"))-header), we.Records)
	require.EqualValues(t, len(want), w.Position())
	require.Equal(t, failure, w.Write(page(9)), "later calls return the same")
	require.Equal(t, failure, w.Flush())
	require.Equal(t, failure, w.Close())
}

func TestDevFull(t *testing.T) {
	w := must(Open("/dev/full", Config{}))
	require.NoError(t, w.Write(page(1)))
	err := w.Flush()
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.EqualError(t, err, "write /dev/full: write /dev/full: no space left on device; 0 whole records (0 bytes) were written before")
	require.Equal(t, err, w.Close())
}

func TestBrokenPipe(t *testing.T) {
	r, pw, err := os.Pipe()
	require.NoError(t, err)
	require.NoError(t, r.Close())
	w := jsonl(t, pw)
	w.path = Stdout
	require.NoError(t, w.Write(page(1)))
	err = w.Close()
	require.ErrorIs(t, err, syscall.EPIPE)
	require.EqualError(t, err, "write standard output: its reader has closed it (broken pipe); 0 whole records (0 bytes) were written before")
	require.NoError(t, pw.Close())
}

type shortWriter struct{}

func (shortWriter) Write(p []byte) (int, error) { return len(p) / 2, nil }

func TestShortWrite(t *testing.T) {
	w := must(New(shortWriter{}, Config{Format: URLs}))
	require.NoError(t, w.Write(page(1)))
	require.NoError(t, w.Write(page(2)))
	err := w.Flush()
	require.ErrorIs(t, err, io.ErrShortWrite)
	require.ErrorContains(t, err, "write records: ")
	require.ErrorContains(t, err, "; 1 whole records (22 bytes)")
}

func TestTruncateFails(t *testing.T) {
	w := must(Open(filepath.Join(t.TempDir(), "out"), Config{}))
	w.out = &cutter{w.file, 10}
	w.truncate = func(int64) error { return syscall.EIO }
	require.NoError(t, w.Write(page(1)))
	err := w.Flush()
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.ErrorIs(t, err, syscall.EIO)
	require.ErrorContains(t, err, "cut off the partial record")
	require.Error(t, w.Close())
}

func TestCloseReportsTheFile(t *testing.T) {
	for _, sync := range []bool{true, false} {
		w := must(Open(filepath.Join(t.TempDir(), "out"), Config{}))
		require.NoError(t, w.Write(page(1)))
		require.NoError(t, w.Flush())
		require.NoError(t, w.file.Close()) // so that what follows fails
		if !sync {
			w.truncate = nil
		}
		err := w.Close()
		require.ErrorIs(t, err, os.ErrClosed)
		var we *WriteError
		require.ErrorAs(t, err, &we)
		require.EqualValues(t, 1, we.Records)
	}
}

func TestOpenExisting(t *testing.T) {
	const old = "https://old.example/\n"
	var table bytes.Buffer
	csv := must(New(&table, Config{Format: CSV}))
	require.NoError(t, csv.Write(page(1)))
	require.NoError(t, csv.Flush())
	header, line, _ := strings.Cut(table.String(), "\n")
	header += "\n"
	failure := "https://example.com/,page,404" + strings.Repeat(",", strings.Count(header, ",")-2) + "\n"
	tests := []struct {
		name    string
		before  string
		cfg     Config
		after   string
		message string
	}{
		{"new", "", Config{Format: URLs}, "https://example.com/1\n", ""},
		{"refuse", old, Config{Format: URLs}, old, "exists and is not empty: add --overwrite to replace it"},
		{"nothing but the header", header, Config{Format: CSV}, header + line, ""},
		{"refuse failures", header + failure, Config{Format: CSV}, header + failure, "add --overwrite to replace it"},
		{"refuse what was cut off", header + "https://example.com/,pa", Config{Format: CSV}, header + "https://example.com/,pa", "exists and is not empty"},
		{"refuse other columns", header, Config{Format: CSV, Fields: []string{"price"}}, header, "exists and is not empty"},
		{"overwrite", old, Config{Format: URLs, Existing: Overwrite}, "https://example.com/1\n", ""},
		{"resume", old + "https://twice.example/\nhttp", Config{Format: URLs, Existing: Resume, Position: int64(len(old))}, old + "https://example.com/1\n", ""},
		{"resume from the beginning", old, Config{Format: URLs, Existing: Resume}, "https://example.com/1\n", ""},
		{"resume what is gone", old, Config{Format: URLs, Existing: Resume, Position: 99}, old, "has 21 bytes, but the crawl to resume had written 99"},
		{"resume what was changed", old, Config{Format: URLs, Existing: Resume, Position: int64(len(old)) - 2}, old, "was changed, no record ends at byte 19"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "out")
			if tt.before != "" {
				require.NoError(t, os.WriteFile(path, []byte(tt.before), 0o600))
			}
			w, err := Open(path, tt.cfg)
			if tt.message != "" {
				require.ErrorContains(t, err, tt.message)
				require.ErrorContains(t, err, path)
			} else {
				require.NoError(t, err)
				require.NoError(t, w.Write(page(1)))
				require.NoError(t, w.Flush())
				require.EqualValues(t, len(tt.after), w.Position())
				require.EqualValues(t, 1, w.Mark().Records)
				require.NoError(t, w.Close())
			}
			got := must(os.ReadFile(path))
			require.Equal(t, tt.after, string(got))
		})
	}
}

// BenchmarkWrite is a record of a documentation page: 160 links and no text.
func BenchmarkWrite(b *testing.B) {
	for _, f := range []Format{JSONL, CSV} {
		b.Run(string(f), func(b *testing.B) {
			r := recordtest.Full()
			r.Links = nil
			for i := range 160 {
				r.Links = append(r.Links, fmt.Sprintf("https://docs.example.org/3/library/module%d.html?x=%d", i, i))
			}
			w := must(New(io.Discard, Config{Format: f}))
			b.ReportAllocs()
			for b.Loop() {
				_ = w.Write(r)
			}
		})
	}
}

// cellsOf reads lines of CSV as a spreadsheet does, by the names of their columns.
func cellsOf(t testing.TB, text string) (rows []map[string]string) {
	t.Helper()
	lines := must(csv.NewReader(strings.NewReader(text)).ReadAll())
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
	w := must(New(&out, Config{Format: CSV, Fields: []string{"title", "tags", "price", "id"}}))
	for _, fields := range []record.Named{
		nil,
		{{Name: "tags", Values: []string{"a,b", `say "x"`, "two\nlines", "=1+1;=2"}, List: true}, {Name: "title", Values: []string{"T"}}},
		{{Name: "tags", Values: []string{"one"}, List: true}, {Name: "price", Values: []string{"-12.50"}, Number: true}},
		{{Name: "title", Values: []string{"=HYPERLINK(1);@x"}}, {Name: "price", Values: []string{"=1"}, Number: true}, {Name: "id", Values: []string{" +1\n"}}},
		{{Name: "price", Values: []string{"1", "2.5"}, List: true, Number: true}, {Name: "title"}, {Name: "other", Values: []string{"x"}}},
	} {
		require.NoError(t, w.Write(&record.Record{URL: "http://a.test/", ID: "i", Fields: fields}))
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
	w := must(Open(path, cfg))
	rec := &record.Record{URL: "http://a.test/", Fields: record.Named{{Name: "title", Values: []string{"T"}}}}
	require.NoError(t, w.Write(rec))
	require.NoError(t, w.Close())
	mark := w.Mark()
	cfg.Existing, cfg.Position, cfg.Records = Resume, mark.Bytes, mark.Records
	for _, fields := range [][]string{nil, {"other"}, {"title", "other"}, {"titl"}} {
		other := cfg
		other.Fields = fields
		_, err := Open(path, other)
		require.ErrorContains(t, err, "has other columns than its next lines would have: give the same --field as before", fields)
	}
	w = must(Open(path, cfg))
	require.NoError(t, w.Write(rec))
	require.NoError(t, w.Close())
	text := must(os.ReadFile(path))
	require.Len(t, cellsOf(t, string(text)), 2)

	var out bytes.Buffer
	for _, existing := range []Existing{Refuse, Resume} {
		w := must(New(&out, Config{Format: CSV, Fields: cfg.Fields, Existing: existing, Position: int64(out.Len())}))
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
		r := &record.Record{URL: "http://a.test/", Fields: record.Named{{Name: "f", Values: []string{a, b}, List: list}}}
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

var csvTable = table{separator: ','}

// must returns v, and panics for an error.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
