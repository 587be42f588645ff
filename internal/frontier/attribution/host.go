package attribution

import (
	"time"

	"github.com/treadlight/crawl/internal/ratelimit/outcome"
)

const (
	// ManyOfURLs is how many URLs that fail on their own show that a host has such URLs, and how many consecutive
	// failures are the host's again all the same: then a control request shows which it is.
	ManyOfURLs = 4
	// manyInRow is how many consecutive failures bring a control request to a host with a limit or in an outage.
	manyInRow = 6
	// longOutage and longRefusal are how long a host must fail or refuse before the first control request, unless it
	// is known to have URLs that fail on their own: a control request costs a page that it served before.
	longOutage  = time.Minute
	longRefusal = 15 * time.Second
)

// Host is what the outcomes of a host's requests have shown so far. The zero Host has none.
type Host struct {
	failures *failures // nil for a host that never failed
	served   int32     // pages answered willingly, whatever they were
	requests uint32    // so far
	servedAt uint32    // the number of the latest of them that was served
	failedAt uint32    // and of the latest that failed
	answered bool      // there was a response with a status
	refuses  bool      // its last failure was the host's, and nothing that came later was served
	// Visited says that pages of the host were visited before this process had it.
	Visited bool
}

// failures is the history of a host that has failed, kept apart because most hosts never do.
type failures struct {
	since    time.Time     // when the host failed first since it answered last; zero: it answers
	inRow    int32         // consecutive failures of the host
	class    outcome.Class // of the last of them
	urls     uint8         // URLs that failed on their own; ManyOfURLs at most
	row      uint8         // consecutive failures, those of URLs on their own included; manyInRow at most
	limits   bool          // a URL that the host had refused was answered later
	controls bool          // the last request was a control request
}

func (h *Host) record() *failures {
	if h.failures == nil {
		h.failures = new(failures)
	}
	return h.failures
}

// Begin counts a request that is about to be made for a URL.
func (h *Host) Begin(s Subject, t *Tries) Evidence {
	h.requests++
	e := Evidence{Served: h.served > 0 || h.Visited, FirstContact: !h.answered, subject: s, number: h.requests}
	if f := h.failures; f != nil {
		e.FailingSince, f.controls = f.since, s == Control
		if s == Page {
			e.OfURL = h.OfURL(t)
			e.Clears = e.OfURL && t.Returns > 0 && t.URLFailures == 0 && !f.limits
		}
	}
	return e
}

// Ended takes in the outcome of a request. Only willing responses and overload count, and no failures of the URL's
// own.
func (h *Host) Ended(e *Evidence, t *Tries, o *Outcome) {
	h.answered = h.answered || o.Answered()
	switch c := o.Class; {
	case o.Lost || c == outcome.Unknown || c == outcome.Canceled:
	case o.Served():
		if e.subject == Rules {
			return
		}
		h.count(e, true)
		if t.Since > 0 {
			f := h.record()
			f.urls, f.limits = 0, f.limits || t.Returns > 0
		}
	case e.subject == Rules && !c.Overload():
	case e.OfURL && c != outcome.ServerError:
		f := h.record()
		f.row = min(f.row+1, manyInRow)
		if t.URLFailures == 0 {
			f.urls = min(f.urls+1, ManyOfURLs)
		}
	case c.Overload() || e.subject == Control:
		h.count(e, false)
		h.record().class = c
	}
}

// Retried takes in that a URL is to be asked for again after a failure, and completes the decision about it.
func (h *Host) Retried(e *Evidence, d *Decision, now time.Time) {
	switch d.Whose {
	case Nobody:
		return
	case Either, OfHost:
		h.count(e, false)
		h.refuses = d.Whose == OfHost
		f := h.failures
		if f.since.IsZero() {
			f.since = now
		}
		if h.refuses && d.Tries.Forbidden > 0 {
			f.class = outcome.ClientError
		}
	case OfURL:
	}
	if e.subject != Rules {
		d.Tries.Since = h.served + 1
	}
}

// count takes in what a request says of its host, once.
func (h *Host) count(e *Evidence, served bool) {
	if e.counted {
		return
	}
	e.counted = true
	if !served {
		f := h.record()
		f.inRow++
		f.row = min(f.row+1, manyInRow)
		h.failedAt = max(h.failedAt, e.number)
		return
	}
	h.served++
	if f := h.failures; f != nil {
		f.inRow, f.row, f.controls, f.since = 0, 0, false, time.Time{}
	}
	h.servedAt = max(h.servedAt, e.number)
	if !h.Failing() {
		h.refuses = false
	}
}

// Failing reports whether the latest request that counts was a failure, in the order in which they were sent.
func (h *Host) Failing() bool { return h.failedAt > h.servedAt }

// Refuses reports whether the last failure was the host's, and nothing that came later was served.
func (h *Host) Refuses() bool { return h.refuses }

// InRow is how many consecutive failures of the host there were, and the class of the last.
func (h *Host) InRow() (n int, class outcome.Class) {
	if h.failures == nil {
		return 0, outcome.Unknown
	}
	return int(h.failures.inRow), h.failures.class
}

// answersOthers reports whether the host has answered since a URL failed, and answered last.
func (h *Host) answersOthers(t *Tries) bool {
	return t.Since > 0 && h.served >= t.Since && !h.Failing()
}

// RetryNow reports whether a failed URL goes before fresh ones: the host has answered another since, without a failure
// after.
func (h *Host) RetryNow(t *Tries) bool {
	return h.answersOthers(t) && (h.failures == nil || h.failures.row == 0)
}

// Selective reports whether the host is known to refuse some URLs and to serve the others.
func (h *Host) Selective() bool {
	f := h.failures
	return f != nil && f.urls >= ManyOfURLs && !f.limits && f.row < ManyOfURLs
}

// OfURL reports whether a failure of the URL would be its own, if it is leased now.
func (h *Host) OfURL(t *Tries) bool {
	f := h.failures
	switch {
	case f == nil || h.Failing():
		return false
	case h.Selective(), t.URLFailures > 0:
		return true
	}
	return h.RetryNow(t) && (!f.limits || t.Returns > 2)
}

// Isolated reports whether a retry waits for the requests under way and a pause, as for failures that a limit may
// give.
func (h *Host) Isolated(t *Tries) bool {
	return t.Since > 0 && t.Returns > 0 && !h.Selective() && h.OfURL(t)
}

// Controlled reports whether the last request was a control request.
func (h *Host) Controlled() bool { return h.failures != nil && h.failures.controls }

// WantsControl reports whether a control request takes the place of a URL that could not show whose the last failures
// were. Fresh URLs are the better trials, unless many have failed in a row. With noRetries a failing URL has no retry,
// so where no other URL is left, the control request goes before the second.
func (h *Host) WantsControl(t *Tries, fresh, noRetries bool, now time.Time) bool {
	f := h.failures
	if f == nil || h.served == 0 || f.controls || t.URLFailures > 0 && !h.Failing() {
		return false
	}
	enough, after := uint8(2), longOutage
	refuses := f.class == outcome.Throttled || f.class == outcome.Unavailable || f.class == outcome.ClientError
	if refuses && f.class != outcome.Unavailable { // which an outage gives too
		after = longRefusal
	}
	switch {
	case fresh && f.urls == 0 && (f.since.IsZero() || now.Sub(f.since) < after):
		return false
	case fresh && (f.limits || !refuses && f.urls < ManyOfURLs):
		enough = manyInRow
	case fresh && f.urls == 0, f.urls >= ManyOfURLs && !f.limits:
		enough = ManyOfURLs
	case t.Since > 0 && (!h.Failing() || !fresh && noRetries):
		enough = 1
	}
	return f.row >= enough
}
