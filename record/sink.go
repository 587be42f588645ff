package record

// Sink receives records, one call at a time. An error ends the crawl.
type Sink interface {
	// Write takes one record, which may stay in memory until Flush. The caller may change the record when Write has
	// returned.
	Write(r *Record) error
	// Flush passes everything written so far to the operating system.
	Flush() error
	// Close flushes and closes the destination.
	Close() error
}

// Durable is a Sink that knows its position, so that what was written after the last committed batch can be cut off
// after a crash. Records of other sinks may then be written twice.
type Durable interface {
	Sink
	// Mark is the position of what the last Flush has passed to the operating system.
	Mark() Position
	// Sync puts what was flushed on disk. Another goroutine may call it beside the other methods, until Close.
	Sync() error
}

// ItemSink is a Sink that also receives items: those of a page right before its record, on the same goroutine.
type ItemSink interface {
	Sink
	// Takes reports whether the sink takes a value. The goroutines of handlers call it.
	Takes(value any) bool
	// WriteItem takes an item, as Write takes a record. r is the record of the item's page.
	WriteItem(r *Record, item Item) error
}

// Item is a value that a handler emitted for a page.
type Item struct {
	// Value is the emitted value.
	Value any
	// JSON is its JSON, without a line break.
	JSON []byte
}

// Position is how far a destination is written. The state of a crawl saves the last one of each sink, for the sink of
// the resumed crawl.
type Position struct {
	// Path identifies the sink in all runs of the crawl: of a file the path with which it was opened, "-" for standard
	// output. Empty if its position is not saved.
	Path string
	// Format names how records are written; empty if there is only one way.
	Format string
	// Bytes is the size up to the last complete record, or any number by which the sink finds that place again.
	Bytes int64
	// Records is the number of records, with those of earlier runs.
	Records int64
}
