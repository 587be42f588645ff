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
	WARC  Format = "warc"  // archives of exchanges, written by package warc
	// Markdown is a tree of files, written by package tree; instead of records there are the chunks of the files, one
	// JSON object per line.
	Markdown Format = "markdown"
)

// Spec is what the program knows about a format.
type Spec struct {
	Format Format
	// Endings are the endings of file names. Files that the program names get the first one. Empty means that the
	// destination is a directory.
	Endings []string
	// Help says what is written, for docs/reference/records.md.
	Help string
	// Note follows the first ending in help texts. Empty means that the ending says enough.
	Note string
	// Complete says that the format holds all of a record. False means that lists, texts and bodies are left out.
	Complete bool
	// Separator separates the cells of a table, which begins with a line of column names and has a column for each of
	// the user's fields. Zero means that the format is no table.
	Separator byte

	begins func(line []byte) bool                    // whether a file with this first line is of the format; nil for tables
	encode func(dst []byte, r *record.Record) []byte // appends a line, or nothing; nil if New knows better how
}

// formats contains all that differs between formats; settings, help, sinks, merge, report and the messages about files
// use it. A table with another separator is one more entry.
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
		begins: func([]byte) bool { return false },
	},
}

// Formats returns all formats.
func Formats() []Spec { return slices.Clone(formats) }

// find returns the first format for which is returns true, or the zero Spec.
func find(is func(Spec) bool) Spec {
	if i := slices.IndexFunc(formats, is); i >= 0 {
		return formats[i]
	}
	return Spec{}
}

// Spec returns what is known about the format; an empty format means JSONL. For an unknown format it returns the zero
// Spec.
func (f Format) Spec() Spec {
	return find(func(s Spec) bool { return s.Format == f || f == "" && s.Format == JSONL })
}

// ByEnding returns the format of files with that ending, which must be in lower case; the zero Spec if there is none.
func ByEnding(ending string) Spec {
	return find(func(s Spec) bool { return slices.Contains(s.Endings, ending) })
}

// ByStart returns the format of a file that begins with head; the zero Spec if it is none.
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

// Ending returns the ending of files that the program names. Empty means that the destination is a directory.
func (s *Spec) Ending() string {
	if len(s.Endings) == 0 {
		return ""
	}
	return s.Endings[0]
}

// Lines reports whether files of the format have one line per record.
func (s *Spec) Lines() bool { return s.encode != nil && len(s.Endings) > 0 || s.Separator != 0 }

// Reportable reports whether records of the format contain what a report needs.
func (s *Spec) Reportable() bool { return s.Complete || s.Separator != 0 }

// ListOf joins texts with commas, and with last before the last one. There must be at least one text.
func ListOf(texts []string, last string) string {
	n := len(texts) - 1
	if n == 0 {
		return texts[0]
	}
	return strings.Join(texts[:n], ", ") + last + texts[n]
}

// EndingList joins the endings of the formats with commas, and with last, such as " or ", before the last one.
func EndingList(last string) string {
	var texts []string
	for i := range formats {
		if ending := formats[i].Ending(); ending != "" {
			texts = append(texts, ending+formats[i].Note)
		}
	}
	return ListOf(texts, last)
}

// chunks appends the chunks of a page, of at most that many tokens each.
func chunks(tokens int) func(dst []byte, r *record.Record) []byte {
	return func(dst []byte, r *record.Record) []byte {
		if r.Markdown == "" {
			return dst
		}
		return chunk.AppendLines(dst, chunk.Split(r.Markdown, r.URL, tokens))
	}
}
