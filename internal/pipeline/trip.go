package pipeline

import (
	"net/http"
	"time"

	"github.com/treadlight/crawl/internal/fetch"
	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
	"github.com/treadlight/crawl/internal/web/canonical"
)

// Tracer receives what happened to URLs and when. *traces.Exporter is the one in use. Its methods are called by the
// goroutines that fetch and write, and must not block.
type Tracer interface {
	// Begin returns the Trip of a lease that goes to a worker, or is refused without one. For a robots.txt, cause is
	// the URL that waits for it, or zero if that is not known. Nil means that this URL is not traced.
	Begin(url, cause canonical.URL) *Trip
	// End takes a finished Trip.
	End(t *Trip)
}

// Trip is one lease from beginning to end: a request for a URL with what comes before and after it. A URL that is tried
// again has several Trips, and the last of them is Final.
type Trip struct {
	URL    canonical.URL
	Cause  canonical.URL // as in [Tracer.Begin]
	Parent string        // the value of a traceparent header for the request; empty sends none
	State  any           // belongs to the Tracer

	Kind    frontier.Kind
	Depth   int
	Attempt int  // counts the requests for the URL, from 1
	Final   bool // the URL is finished

	Found, Leased time.Time // when the URL was added to the frontier, and when it was leased
	PermitWait    time.Duration
	Sent, Ended   time.Time // of the request, its connection included; zero if none was made

	Method     string // of the request; empty means GET
	Class      outcome.Class
	Err        error // nil if a response arrived, whatever its status
	Fate       string
	Status     int
	Proto      string
	RemoteAddr string
	WireBytes  int64
	Handed     time.Time // when the Fetcher passed the request to a connection; zero if not known
	Timings    fetch.Timings

	Parse, Write Span // time in Processing and in Output; zero if the lease did not get there
}

// Span is an interval of time.
type Span struct{ From, Til time.Time }

// trip begins the Trip of a lease. It returns nil if the lease is not traced.
func (c *Config) trip(l *frontier.Lease) *Trip {
	if c.Tracer == nil {
		return nil
	}
	t := c.Tracer.Begin(l.URL, l.Cause)
	if t != nil {
		t.URL, t.Cause, t.Kind, t.Depth, t.Attempt = l.URL, l.Cause, l.Kind, int(l.Depth), int(l.Attempt)+int(l.Returns)+1
		t.Found, t.Leased = l.Queued, l.LeasedAt()
	}
	return t
}

func (t *Trip) asked(f *fetched, end time.Time) {
	if t == nil {
		return
	}
	t.Method, t.PermitWait, t.Sent, t.Ended, t.Class, t.Err = f.asked.Method, f.permitWait, f.sent, end, f.class, f.err
	if r := f.resp; r != nil {
		t.Status, t.Proto, t.RemoteAddr, t.WireBytes = r.Status, r.Proto, r.RemoteAddr, r.WireBytes
		t.Handed, t.Timings = r.SentAt, r.Timings
	}
}

// withParent adds the header field that identifies the trace to the host, if the Trip has one.
func (t *Trip) withParent(h http.Header) http.Header {
	if t == nil || t.Parent == "" {
		return h
	}
	if h == nil {
		h = make(http.Header, 1)
	}
	h["Traceparent"] = []string{t.Parent}
	return h
}
