package record

// Sink takes records, one call at a time. An error ends the crawl.
type Sink interface {
	// Write takes one record, which may stay in memory until Flush. The caller may change the record once Write has
	// returned.
	Write(r *Record) error
	// Flush hands everything taken so far to the system.
	Flush() error
	// Close flushes and gives the destination up.
	Close() error
}

// Durable is a Sink that tells how far it is, so that what was written behind the last batch of a crawl that is kept
// can be cut off after a crash. Records of other sinks may come twice then.
type Durable interface {
	Sink
	// Mark is how far the destination is: what the last Flush has handed to the system.
	Mark() Position
	// Sync puts what was flushed on its disk. It may be called beside the other methods, by another goroutine, until
	// Close.
	Sync() error
}

// ItemSink is a Sink that takes items too, those of a page right before its record and by the same goroutine.
type ItemSink interface {
	Sink
	// Takes reports whether it takes a value. It is called by the goroutines of handlers.
	Takes(value any) bool
	// WriteItem takes an item that it says it takes, as Write does a record. The record is that of the item's page.
	WriteItem(r *Record, item Item) error
}

// Item is a value that a handler emitted for a page.
type Item struct {
	// Value is what was emitted.
	Value any
	// JSON is its JSON without a line break.
	JSON []byte
}

// Position is how far a destination is. A state of a crawl keeps the latest of each sink, and tells the sink that goes
// on where that was.
type Position struct {
	// Path is what the sink is known by, in all runs of the crawl: of a file its path as it was opened, with "-" for
	// standard output. Empty: its position is not kept.
	Path string
	// Format names how records are written; empty if there is only one way.
	Format string
	// Bytes is the size up to the last whole record, or any number by which the sink finds that place again.
	Bytes int64
	// Records is how many records there are, those of earlier runs too.
	Records int64
}
