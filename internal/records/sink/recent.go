package sink

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/treadlight/crawl/record"
)

// Last is what a crawl has recorded last, the newest first.
type Last struct {
	Errors []Seen `json:"errors"` // at most 50, of those that Snapshot.Errors counts
	Pages  []Seen `json:"pages"`  // at most 20
}

// Seen is a short form of a record. Its texts may come from a server, and are cut to 300 bytes.
type Seen struct {
	At     time.Time `json:"at"`
	URL    string    `json:"url"`
	Title  string    `json:"title,omitempty"`
	Status int       `json:"status,omitempty"`
	Class  string    `json:"class,omitempty"` // class of its error
	Error  string    `json:"error,omitempty"`
}

const (
	recentErrors = 50
	recentPages  = 20
	// seenText is the longest text kept of a record, in bytes: two lines on a screen.
	seenText = 300
)

// Recent keeps the last records, once Last has been called for the first time. The zero Recent is ready to use. It is
// safe for concurrent use.
type Recent struct {
	wanted atomic.Bool

	mu   sync.Mutex // guards what follows
	last Last
}

// Note keeps a record, if Last has been called.
func (r *Recent) Note(rec *record.Record) {
	if !r.wanted.Load() {
		return
	}
	s := Seen{At: rec.FetchedAt, URL: cut(rec.URL), Title: cut(rec.Title), Status: rec.Status}
	_, failed := Counts(rec.Kind, rec.Status, rec.ErrorClass())
	switch e := rec.Error; {
	case e != nil && !failed:
		return // the URL was left out on purpose
	case e != nil:
		s.Class, s.Error = e.Class, cut(e.Message)
	case failed:
		s.Class, s.Error = "status", http.StatusText(rec.Status)
	}
	list, most := &r.last.Pages, recentPages
	if failed {
		list, most = &r.last.Errors, recentErrors
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	*list = slices.Insert((*list)[:min(len(*list), most-1)], 0, s)
}

// cut returns a shortened copy of a text; a substring would keep a whole page in memory.
func cut(text string) string {
	if len(text) > seenText {
		return strings.ToValidUTF8(text[:seenText], "") + "…"
	}
	return strings.Clone(text)
}

// Last returns the last records since its first call.
func (r *Recent) Last() Last {
	r.wanted.Store(true)
	r.mu.Lock()
	defer r.mu.Unlock()
	return Last{append([]Seen{}, r.last.Errors...), append([]Seen{}, r.last.Pages...)}
}
