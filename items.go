package crawl

import (
	"github.com/treadlight/crawl/internal/records/sink"
)

// Item is what [Page.Emit] was given: the Value, and its JSON without a line break.
type Item = sink.Item

// ItemSink is a [Sink] that takes items too: for each that Takes reports true of, WriteItem is called before Write is with the
// record of its page, by the same goroutine. Takes is called by the goroutines of handlers.
type ItemSink = sink.ItemSink

// Items opens a file for items of type T, and pointers to it: a line of JSON each, in the order of their pages, in a file that
// must not exist or be empty. It is a sink for [Options.Sinks], to be closed after the crawl, and takes no records. For a crawl
// that goes on, resume is how far the file was, [State.Position] of its path: what it has behind that is cut off. Nil begins
// anew.
func Items[T any](path string, resume *Position) (Durable, error) {
	cfg := sink.Config{}
	if resume != nil {
		cfg = sink.Config{Existing: sink.Resume, Position: resume.Bytes, Records: resume.Records}
	}
	w, err := sink.Open(path, cfg)
	if err != nil {
		return nil, err
	}
	return &items[T]{w}, nil
}

// items is a file of one type.
type items[T any] struct{ *sink.Writer }

// Write takes no records.
func (*items[T]) Write(*Record) error { return nil }

// Takes implements [ItemSink].
func (*items[T]) Takes(value any) bool {
	switch value.(type) {
	case T, *T:
		return true
	}
	return false
}

// WriteItem implements [ItemSink].
func (w *items[T]) WriteItem(_ *Record, item Item) error { return w.WriteLine(append(item.JSON, '\n')) }
