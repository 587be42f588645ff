package main

import (
	"errors"
	"io"
	"strings"

	"github.com/treadlight/crawl/internal/pipeline/sink"
)

// witness passes records on and remembers why the first seeds failed, which is what a
// person wants to know when none was reached. Like every sink it has one writer; the
// failures are read after the crawl.
type witness struct {
	sink.Durable
	name string // under which the state knows the destination
	seen []string
	lock io.Closer // on the destination; nil = it needs none
}

// Close closes the destination, and then lets others have it.
func (w *witness) Close() (err error) {
	if w.Durable != nil {
		err = w.Durable.Close()
	}
	if w.lock != nil {
		err = errors.Join(err, w.lock.Close())
		w.lock = nil
	}
	return err
}

// Mark is how far the destination is, under the state's name for it.
func (w *witness) Mark() sink.Position {
	p := w.Durable.Mark()
	p.Path = w.name
	return p
}

// maxWitnessed is how many failures are told: with a thousand dead seeds, three show
// what is wrong.
const maxWitnessed = 3

// Write takes one record.
func (w *witness) Write(r *sink.Record) error {
	if r.Depth == 0 && r.Error != nil && r.Status == 0 && len(w.seen) < maxWitnessed {
		w.seen = append(w.seen, r.URL+": "+r.Error.Message)
	}
	return w.Durable.Write(r)
}

// failures is what was seen, each on a line of its own that begins with the line feed.
func (w *witness) failures() string {
	if len(w.seen) == 0 {
		return ""
	}
	return "\n" + strings.Join(w.seen, "\n")
}
