package crawl

import (
	"bufio"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/treadlight/crawl/internal/assembly"
	"github.com/treadlight/crawl/internal/records/sink"
	"github.com/treadlight/crawl/record"
)

// Items opens a file for items of type T or *T: one line of JSON each, in the order of their pages, compressed if the
// path ends in .gz. The file must not exist or must be empty. The result is a sink for [Options.Sinks] that writes no
// records; close it after the crawl. To resume a crawl, pass its [State.Position] of the path as resume: whatever follows
// in the file is cut off. Nil starts anew.
func Items[T any](path string, resume *record.Position) (record.Durable, error) {
	w, err := openFile(path, resume, sink.Config{Gzip: strings.HasSuffix(path, ".gz")})
	if err != nil {
		return nil, err
	}
	return &sink.Lines{Writer: w, Of: func(value any) bool {
		switch value.(type) {
		case T, *T:
			return true
		}
		return false
	}}, nil
}

// Records opens a file for records, like the command's --output. The ending of the path sets the format: .jsonl, .csv,
// or .txt for the URLs of pages, each with .gz to compress the file. "-" writes JSON lines to standard output. A table
// has a column for each of fields, which are names in [ExtractOptions.Fields]. Path and resume mean the same as for
// [Items].
func Records(path string, resume *record.Position, fields ...string) (record.Durable, error) {
	name, zipped := strings.CutSuffix(strings.ToLower(path), ".gz")
	spec := sink.ByEnding(filepath.Ext(name))
	if path == sink.Stdout {
		spec = sink.JSONL.Spec()
	}
	if !spec.Lines() {
		return nil, fmt.Errorf("the ending of %q says no format of records: use .jsonl, .csv or .txt, or OpenArchive for archives", path)
	}
	w, err := openFile(path, resume, sink.Config{Format: spec.Format, Gzip: zipped, Fields: fields})
	if err != nil {
		return nil, err
	}
	return w, nil
}

func openFile(path string, resume *record.Position, cfg sink.Config) (*sink.Writer, error) {
	if resume != nil {
		cfg.Existing, cfg.Position, cfg.Records = sink.Resume, resume.Bytes, resume.Records
	}
	w, err := sink.Open(path, cfg)
	if err != nil {
		return nil, assembly.FileInProgram(err)
	}
	return w, nil
}

// printed takes all items of a program without sinks: it writes each as a line of JSON to standard output.
type printed struct{ *bufio.Writer }

func (printed) Write(*record.Record) error { return nil }
func (printed) Takes(any) bool             { return true }
func (printed) Close() error               { return nil }
func (w printed) WriteItem(_ *record.Record, item record.Item) error {
	_, err := w.Writer.Write(append(item.JSON, '\n'))
	return err
}
