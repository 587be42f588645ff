package sink

import (
	"bytes"
	"slices"
	"strings"

	"github.com/treadlight/crawl/internal/records/chunk"
	"github.com/treadlight/crawl/record"
)

// Format is how records are written.
type Format string

// The formats.
const (
	JSONL Format = "jsonl" // one JSON object per line
	CSV   Format = "csv"   // a header line, then one line per record
	URLs  Format = "urls"  // the URLs of pages fetched with success
	WARC  Format = "warc"  // archives of exchanges, which package warc writes
	// Markdown is a tree of files, which package tree writes; the records are the chunks of them, one JSON object per line.
	Markdown Format = "markdown"
)

// Spec is what the program knows of a format.
type Spec struct {
	Format Format
	// Endings are those of file names. The first is given to files that the program names. Empty: it is a directory.
	Endings []string
	// Help says what is written, for docs/reference/records.md.
	Help string
	// Note stands behind the first ending in help. Empty: the ending says enough.
	Note string
	// Complete formats hold all of a record. False: lists, texts and bodies are left out.
	Complete bool
	// Separator stands between the cells of a table, which begins with a line of column names and has a column for
	// each of the user's fields. Zero: the format is no table.
	Separator byte

	begins func(line []byte) bool                    // a file with this first line is of the format; nil for tables
	encode func(dst []byte, r *record.Record) []byte // appends a line, or nothing; nil for tables and archives
}

// formats is all that differs between formats: settings, help, sinks, merge, report and the messages about files read
// it. A table with another separator is one more row.
var formats = []Spec{
	{
		Format: JSONL, Endings: []string{".jsonl", ".ndjson", ".json"}, Complete: true,
		Help:   "all fields, one JSON object per line",
		begins: func(line []byte) bool { return line[0] == '{' }, encode: func(dst []byte, r *record.Record) []byte { return r.AppendJSON(dst) },
	},
	{
		Format: CSV, Endings: []string{".csv"}, Separator: ',',
		Help: "the same without lists; an apostrophe stands before what a spreadsheet would take for a formula, also where semicolons separate cells",
	},
	{
		Format: URLs, Endings: []string{".txt", ".urls"}, Note: " (URLs)",
		Help: "one URL per page",
		begins: func(line []byte) bool {
			return bytes.Contains(line, []byte("://")) && !bytes.ContainsAny(line, " \t\x00")
		},
		encode: appendURL,
	},
	{
		Format: WARC, Endings: []string{".warc"},
		Help:   "[archives](../how-to/archives.md) in the place of records",
		begins: func(line []byte) bool { return bytes.HasPrefix(line, []byte("WARC/")) },
	},
	{
		Format: Markdown,
		Help:   "[a tree of files](../how-to/markdown.md) of the main text of pages, with llms.txt, and chunks.jsonl in the place of records",
		begins: func([]byte) bool { return false }, encode: appendChunks,
	},
}

// Formats are all formats.
func Formats() []Spec { return slices.Clone(formats) }

// find is the first format of which that is true; zero if there is none.
func find(is func(Spec) bool) Spec {
	if i := slices.IndexFunc(formats, is); i >= 0 {
		return formats[i]
	}
	return Spec{}
}

// Spec is what is known of the format; empty stands for JSONL. Of one that does not exist it is zero.
func (f Format) Spec() Spec {
	return find(func(s Spec) bool { return s.Format == f || f == "" && s.Format == JSONL })
}

// ByEnding is the format of files whose names end so, in lower case; zero if there is none.
func ByEnding(ending string) Spec {
	return find(func(s Spec) bool { return slices.Contains(s.Endings, ending) })
}

// ByStart is the format of a file that begins with head; zero if it is none.
func ByStart(head []byte) Spec {
	line, _, _ := bytes.Cut(bytes.TrimLeft(head, " \t\r\n"), []byte{'\n'})
	if line = bytes.TrimSpace(line); len(line) == 0 {
		return Spec{}
	}
	return find(func(s Spec) bool {
		if s.Separator != 0 {
			return strings.HasPrefix(string(line), strings.Join([]string{"url", "kind", "status", ""}, string(s.Separator)))
		}
		return s.begins(line)
	})
}

// Ending is that of files that the program names. Empty: it is a directory.
func (s *Spec) Ending() string {
	if len(s.Endings) == 0 {
		return ""
	}
	return s.Endings[0]
}

// Lines reports whether a file has one line for each record.
func (s *Spec) Lines() bool { return s.encode != nil && len(s.Endings) > 0 || s.Separator != 0 }

// Reportable reports whether records have what a report is made of.
func (s *Spec) Reportable() bool { return s.Complete || s.Separator != 0 }

// ListOf is texts with commas between them, and with last before the last one.
func ListOf(texts []string, last string) string {
	n := len(texts) - 1
	return strings.Join(texts[:n], ", ") + last + texts[n]
}

// EndingList names the endings, with last before the last one: " or ".
func EndingList(last string) string {
	var texts []string
	for i := range formats {
		if ending := formats[i].Ending(); ending != "" {
			texts = append(texts, ending+formats[i].Note)
		}
	}
	return ListOf(texts, last)
}

func appendChunks(dst []byte, r *record.Record) []byte {
	if r.Markdown == "" {
		return dst
	}
	return chunk.AppendLines(dst, chunk.Split(r.Markdown, r.URL, chunk.DefaultTokens))
}
