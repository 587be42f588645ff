package pipeline

import (
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/treadlight/crawl/internal/records/sink"
)

// Recent is the last that the crawl has dealt with, the newest first.
type Recent struct {
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

// recent keeps the last records once somebody has asked for them, and until then nothing.
type recent struct {
	wanted atomic.Bool

	mu     sync.Mutex // guards what follows
	errors lastSeen
	pages  lastSeen
}

// lastSeen is a ring.
type lastSeen struct {
	seen []Seen
	n    int // ever added
}

func (l *lastSeen) add(s Seen, room int) {
	if len(l.seen) < room {
		l.seen = append(l.seen, s)
	} else {
		l.seen[l.n%room] = s
	}
	l.n++
}

func (l *lastSeen) newest() []Seen {
	list := make([]Seen, 0, len(l.seen))
	for i := range l.seen {
		list = append(list, l.seen[(l.n-1-i)%len(l.seen)])
	}
	return list
}

// note keeps a record, if it is wanted.
func (r *recent) note(rec *sink.Record) {
	if !r.wanted.Load() {
		return
	}
	s := Seen{At: rec.FetchedAt, URL: cut(rec.URL), Title: cut(rec.Title), Status: rec.Status}
	_, failed := sink.Counts(rec.Kind, rec.Status, rec.ErrorClass())
	switch e := rec.Error; {
	case e != nil && !failed:
		return // it was left out
	case e != nil:
		s.Class, s.Error = e.Class, cut(e.Message)
	case failed:
		s.Class, s.Error = "status", http.StatusText(rec.Status)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if failed {
		r.errors.add(s, recentErrors)
		return
	}
	r.pages.add(s, recentPages)
}

// cut is a copy, so that it does not keep a whole page in memory.
func cut(text string) string {
	if len(text) > seenText {
		return strings.ToValidUTF8(text[:seenText], "") + "…"
	}
	return strings.Clone(text)
}

// Recent is what was dealt with last. Records are kept for it from the first call on. It may be called at any
// time.
func (p *Pipeline) Recent() Recent {
	r := &p.recent
	r.wanted.Store(true)
	r.mu.Lock()
	defer r.mu.Unlock()
	return Recent{r.errors.newest(), r.pages.newest()}
}
