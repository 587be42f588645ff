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

// Last is what a crawl has dealt with last, the newest first.
type Last struct {
	Errors []Seen `json:"errors"` // at most 50: those that Snapshot.Errors counts
	Pages  []Seen `json:"pages"`  // at most 20
}

// Seen is a record in short. Its texts are those of a stranger, cut to 300 bytes.
type Seen struct {
	At     time.Time `json:"at"`
	URL    string    `json:"url"`
	Title  string    `json:"title,omitempty"`
	Status int       `json:"status,omitempty"`
	Class  string    `json:"class,omitempty"` // of its error
	Error  string    `json:"error,omitempty"`
}

const (
	recentErrors = 50
	recentPages  = 20
	// seenText is the longest text kept of a record, in bytes: two lines of a screen.
	seenText = 300
)

// Recent keeps the last records once somebody has asked for them, and until then nothing. The zero Recent is ready. It is
// safe for concurrent use.
type Recent struct {
	wanted atomic.Bool

	mu   sync.Mutex // guards what follows
	last Last
}

// Note keeps a record, if it is wanted.
func (r *Recent) Note(rec *record.Record) {
	if !r.wanted.Load() {
		return
	}
	s := Seen{At: rec.FetchedAt, URL: cut(rec.URL), Title: cut(rec.Title), Status: rec.Status}
	_, failed := Counts(rec.Kind, rec.Status, rec.ErrorClass())
	switch e := rec.Error; {
	case e != nil && !failed:
		return // it was left out
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

// cut is a copy, so that it does not keep a whole page in memory.
func cut(text string) string {
	if len(text) > seenText {
		return strings.ToValidUTF8(text[:seenText], "") + "…"
	}
	return strings.Clone(text)
}

// Last are the last of them, from the first call on.
func (r *Recent) Last() Last {
	r.wanted.Store(true)
	r.mu.Lock()
	defer r.mu.Unlock()
	return Last{append([]Seen{}, r.last.Errors...), append([]Seen{}, r.last.Pages...)}
}
