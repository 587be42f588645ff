package attribution

import (
	"time"

	"github.com/treadlight/crawl/internal/ratelimit/outcome"
)

const (
	// ManyOfURLs is how many URLs that fail on their own show that a host has such URLs. It is also how many
	// consecutive failures at such a host count as the host's again; then a control request shows whose they are.
	ManyOfURLs = 4
	// manyInRow is how many consecutive failures cause a control request to a host with a limit or in an outage.
	manyInRow = 6
	// longOutage and longRefusal are how long a host must fail or refuse before the first control request, unless it is
	// known to have URLs that fail on their own. A control request costs the fetch of a page that the host served
	// before.
	longOutage  = time.Minute
	longRefusal = 15 * time.Second
)

// Host is what the outcomes of a host's requests have shown so far. The zero Host has no history. It is not safe for
// concurrent use.
type Host struct {
	failures *failures // nil if the host never failed
	served   int32     // pages that the host served willingly (see Outcome.Served)
	requests uint32    // so far
	servedAt uint32    // number of the latest request that was served
	failedAt uint32    // number of the latest request that failed
	answered bool      // whether there was a response with a status
	refuses  bool      // whether its last failure was the host's, and no later request was served
	// Visited says that pages of the host were visited before this process had it.
	Visited bool
}

// failures is the history of a host that has failed. It is kept apart because most hosts never fail.
type failures struct {
	since    time.Time     // time of the first failure since the host answered last; zero means that it answers
	inRow    int32         // consecutive failures of the host
	class    outcome.Class // class of the last failure that was the host's
	urls     uint8         // number of URLs that failed on their own, up to ManyOfURLs
	row      uint8         // consecutive failures, including those of URLs on their own; up to manyInRow
	limits   bool          // whether a URL that the host had refused was answered later
	controls bool          // whether the last request was a control request
}

func (h *Host) record() *failures {
	if h.failures == nil {
		h.failures = new(failures)
	}
	return h.failures
}

// Begin counts a request that is about to be made for a URL, and returns the evidence for it.
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

// Ended records the outcome of a request. Only willing responses and overload count, and no failures that are the URL's
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

// Retried records that a URL is to be requested again after a failure, and completes the decision about it.
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

// count records what a request shows about its host. Each request counts once.
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

// Failing reports whether the latest request that counts was a failure, in the order in which requests were sent.
func (h *Host) Failing() bool { return h.failedAt > h.servedAt }

// Refuses reports whether the last failure was the host's and no later request was served.
func (h *Host) Refuses() bool { return h.refuses }

// InRow returns the number of consecutive failures of the host and the class of the last of them.
func (h *Host) InRow() (n int, class outcome.Class) {
	if h.failures == nil {
		return 0, outcome.Unknown
	}
	return int(h.failures.inRow), h.failures.class
}

// answersOthers reports whether the host has served a page since a URL failed and is not failing now.
func (h *Host) answersOthers(t *Tries) bool {
	return t.Since > 0 && h.served >= t.Since && !h.Failing()
}

// RetryNow reports whether a failed URL goes before fresh ones: the host has served another page since, and no failure
// came after that.
func (h *Host) RetryNow(t *Tries) bool {
	return h.answersOthers(t) && (h.failures == nil || h.failures.row == 0)
}

// Selective reports whether the host is known to refuse some URLs and to serve the others.
func (h *Host) Selective() bool {
	f := h.failures
	return f != nil && f.urls >= ManyOfURLs && !f.limits && f.row < ManyOfURLs
}

// OfURL reports whether a failure of the URL would be attributed to the URL itself if it were leased now.
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

// Isolated reports whether a retry of the URL must wait for the requests in flight and for a pause, because a rate
// limit may have caused its failures.
func (h *Host) Isolated(t *Tries) bool {
	return t.Since > 0 && t.Returns > 0 && !h.Selective() && h.OfURL(t)
}

// Controlled reports whether the last request was a control request.
func (h *Host) Controlled() bool { return h.failures != nil && h.failures.controls }

// WantsControl reports whether a control request should take the place of a URL whose failure would not show whose the
// last failures were. Fresh URLs are better trials, unless many have failed in a row. With noRetries set a failing URL
// has no retry; then, if no other URL is left, the control request goes before the URL's second request.
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
