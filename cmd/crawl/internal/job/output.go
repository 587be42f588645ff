package job

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/treadlight/crawl/internal/ratelimit/outcome"
	"github.com/treadlight/crawl/internal/records/sink"
	"github.com/treadlight/crawl/internal/records/summary"
)

// failureSummary passes records on and remembers why the first seeds failed, which is what a
// person wants to know when nothing was obtained. Like every sink it has one writer; the
// failures are read after the crawl.
type failureSummary struct {
	sink.Durable
	name string // under which the state knows the destination
	seen []string
	via  int       // of them, those that the proxy failed
	good bool      // a page is as it was, or was kept out by the settings
	lock io.Closer // on the destination; nil = it needs none
}

// Close closes the destination, and then lets others have it.
func (w *failureSummary) Close() (err error) {
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
func (w *failureSummary) Mark() sink.Position {
	p := w.Durable.Mark()
	p.Path = w.name
	return p
}

// maxWitnessed is how many failures are told: with a thousand dead seeds, three show
// what is wrong.
const maxWitnessed = 3

// Write takes one record.
func (w *failureSummary) Write(r *sink.Record) error {
	w.good = w.good || r.Status/100 == 2 || r.Status == http.StatusNotModified && r.Error == nil
	if r.Depth == 0 && r.Status/100 != 2 && len(w.seen) < maxWitnessed {
		w.seen = append(w.seen, r.URL+": "+failure(r))
		if r.ErrorClass() == outcome.Proxy.String() {
			w.via++
		}
	}
	return w.Durable.Write(r)
}

// failure is why a record has no page.
func failure(r *sink.Record) string {
	switch {
	case r.Error != nil:
		return r.Error.Message
	case r.RedirectTo != "":
		return fmt.Sprintf("status %d, a redirect to %s", r.Status, r.RedirectTo)
	}
	if meaning := summary.Meaning(strconv.Itoa(r.Status)); meaning != "" {
		return fmt.Sprintf("status %d (%s)", r.Status, meaning)
	}
	return fmt.Sprintf("status %d", r.Status)
}

// failures is what was seen, each on a line of its own that begins with the line feed.
func (w *failureSummary) failures() string {
	if len(w.seen) == 0 {
		return ""
	}
	return "\n" + strings.Join(w.seen, "\n")
}
