package crawl

import (
	"strings"

	"github.com/treadlight/crawl/internal/records/sink"
	"github.com/treadlight/crawl/record"
)

// Items opens a file for items of type T, and pointers to it: a line of JSON each, in the order of their pages, in a file that
// must not exist or be empty. It is a sink for [Options.Sinks], to be closed after the crawl, and takes no records. For a crawl
// that goes on, resume is how far the file was, [State.Position] of its path: what it has behind that is cut off. Nil begins
// anew.
func Items[T any](path string, resume *record.Position) (record.Durable, error) {
	cfg := sink.Config{}
	if resume != nil {
		cfg = sink.Config{Existing: sink.Resume, Position: resume.Bytes, Records: resume.Records}
	}
	w, err := sink.Open(path, cfg)
	if err != nil {
		return nil, &programError{err, itemsAdvice.Replace(err.Error())}
	}
	return &items[T]{w}, nil
}

// itemsAdvice is what to do about a file, which is other than with the command.
var itemsAdvice = strings.NewReplacer("add --overwrite to replace it, or choose another file", "remove it, choose another file, or give the position to go on from",
	", or begin the crawl anew with --overwrite, without 'resume'", ", or begin the crawl anew with a file that is not there")

// items is a file of one type.
type items[T any] struct{ *sink.Writer }

// Write takes no records.
func (*items[T]) Write(*record.Record) error { return nil }

// Takes implements [record.ItemSink].
func (*items[T]) Takes(value any) bool {
	switch value.(type) {
	case T, *T:
		return true
	}
	return false
}

// WriteItem implements [record.ItemSink].
func (w *items[T]) WriteItem(_ *record.Record, item record.Item) error {
	return w.WriteLine(append(item.JSON, '\n'))
}
