// Package attribution decides whose a failure is: the URL's or its host's.
//
// A host that limits rates and a page that refuses every request give the same response, and a host that is down fails
// like a page that is broken. A [Host] keeps what a host's responses have shown so far. When a URL is leased,
// [Host.Begin] derives from this history the [Evidence] for that one request, and [Decide] says what a failure means
// given that evidence:
//
//   - The first failure of a URL is attributed to the host, and reported to the limiter.
//   - The URL is requested again when the host has answered another one since. That is an isolated retry, with no other
//     request in flight and after a pause, so that no limit can be the reason. If it fails again, that is the URL's own
//     failure: an attempt is spent, and the host is not slowed.
//   - A failure while the host answers nothing is the host's and spends no attempt, for a day.
//   - If no other URL is left to try, a page that the host has served before is requested again: a control request.
//
// A host where several URLs failed on their own, and none of them was ever answered later, serves some URLs and refuses
// others. There a failure between two responses is the URL's from the first one on, and no retry is isolated. A host
// that has later answered a URL which it had refused has a limit. There a retry is isolated only after the third
// failure of its URL.
package attribution

import (
	"time"

	"github.com/treadlight/crawl/internal/ratelimit/outcome"
)

// Subject is what a request is for, as far as its outcome is evidence about the host.
type Subject uint8

// The subjects.
const (
	Page    Subject = iota // a URL of the crawl
	Rules                  // robots.txt, which even hosts serve that refuse all else
	Control                // a page that the host has served before
)

// Outcome is the outcome of a request. The zero Outcome says that no request was made.
type Outcome struct {
	Class       outcome.Class
	Status      int  // of the response; zero means that there was none
	Waits       bool // the response says how long to wait
	Lost        bool // with a kept connection, or refused for a condition: it says nothing about URL or host
	Unreachable bool // nothing listens at the address
}

// Answered reports whether there was a response, of whatever status.
func (o *Outcome) Answered() bool { return o.Status != 0 }

// Served reports whether the host gave the response willingly. A 403 does not count: it may forbid the page or the
// request.
func (o *Outcome) Served() bool {
	return o.Answered() && !o.Class.Overload() && o.Class != outcome.Canceled && !outcome.Forbidden(o.Status)
}

// Refused reports whether the response is one that rate limits give.
func (o *Outcome) Refused() bool {
	return o.Class == outcome.Throttled || o.Class == outcome.Unavailable || outcome.Forbidden(o.Status)
}

// Failed reports whether the same request may be answered later.
func (o *Outcome) Failed() bool { return o.Class.Transient() || outcome.Forbidden(o.Status) }

// Tries counts the requests for a URL so far by what came of them.
type Tries struct {
	Attempt     uint8         // requests that count as attempts
	URLFailures uint8         // failures that were attributed to the URL
	Forbidden   uint8         // responses with status 403
	Class       outcome.Class // of the last failure
	Returns     uint16        // requests that do not count as attempts: the host failed, or a connection was lost
	Status      uint16        // of the last response that was a failure; zero means none
	Since       int32         // one more than the pages its host had served when the URL failed last; zero: no failure
}

// None reports whether the URL has not been requested yet.
func (t *Tries) None() bool { return *t == Tries{} }

// Lifted reports whether a status below 400 came for a URL that had met a 403 before, so that the 403 meant "later".
func (t *Tries) Lifted(status int) bool {
	return t.Forbidden > 0 && status != 0 && status/100 <= 3
}

// Attribution says whose a failure is.
type Attribution uint8

// The attributions.
const (
	Nobody Attribution = iota // nobody's: there was no failure, or it says nothing
	Either                    // unknown: an attempt is spent
	OfURL                     // the URL's: an attempt is spent, and it does not count against the host
	OfHost                    // the host's: no attempt is spent
)

// Evidence is what the history of a host says about one request, as it stood when the URL was leased.
type Evidence struct {
	// OfURL says that a failure is the URL's own, because the host answers others.
	OfURL bool
	// Clears says that the URL's previous failure, which was reported to the limiter, was the URL's own too.
	Clears bool
	// Served says that the host has served a page, now or before this process had it.
	Served bool
	// FirstContact says that the host has never sent a response.
	FirstContact bool
	// FailingSince is the time of the host's first failure since it answered last. Zero means that it answers.
	FailingSince time.Time

	subject Subject
	counted bool // its outcome is counted in the host's history
	number  uint32
}

// Number returns the number of the request among the requests to the host, from 1.
func (e *Evidence) Number() uint32 { return e.number }

// Deserted reports whether nothing listened at a host that has never answered.
func (e *Evidence) Deserted(o *Outcome) bool { return o.Unreachable && e.FirstContact }

// Case is one outcome to be attributed.
type Case struct {
	Evidence Evidence
	Tries    Tries // before the outcome
	Outcome  Outcome
	Down     bool // the circuit breaker of the host is open
	Retries  int  // how many retries follow the first attempt at most
	Now      time.Time
}

// Decision says what an outcome means for its URL.
type Decision struct {
	Whose Attribution
	Final bool  // the URL is not requested again
	Tries Tries // after the outcome
}

const (
	// MaxOutage is how long the failures of a host that answers nothing spend no attempt.
	MaxOutage = 24 * time.Hour
	// MaxContacts is how many attempts a host gets that has never answered and where nothing listens. That is most
	// often a wrong port; the second attempt is for a server that is just restarting.
	MaxContacts = 2
)

// Decide says whose a failure is and whether the URL is requested again. It is only for pages.
func Decide(c *Case) Decision {
	e, o, t := &c.Evidence, &c.Outcome, c.Tries
	attempts := int(t.Attempt) + 1
	final := func(whose Attribution) Decision { return Decision{Whose: whose, Final: true, Tries: t} }
	switch {
	case o.Lost:
		t.note(o)
		return Again(t, Nobody)
	case e.Deserted(o) && attempts >= MaxContacts:
		return final(OfHost)
	case !o.Failed():
		return final(Nobody)
	case !e.FailingSince.IsZero() && c.Now.Sub(e.FailingSince) >= MaxOutage:
		return final(OfHost)
	}
	t.note(o)
	forbidden := outcome.Forbidden(o.Status)
	switch {
	case e.OfURL:
		if o.Refused() && t.URLFailures == 0 && t.Attempt == 0 && t.Returns > 0 {
			attempts++ // the refusal before was the URL's too, as is known now
			t.Attempt++
		}
		if attempts > c.Retries || forbidden { // a 403 that is not the host's is final
			return final(OfURL)
		}
		return Again(t, OfURL)
	case c.ofHost():
		return Again(t, OfHost)
	case forbidden || attempts > c.Retries:
		return final(Either)
	}
	return Again(t, Either)
}

// Again returns the decision to request a URL again after a failure: it adds the failure to the URL's tries.
func Again(t Tries, whose Attribution) Decision {
	switch whose {
	case Nobody, OfHost:
		t.Returns = added(t.Returns)
	case OfURL:
		t.URLFailures = added(t.URLFailures)
		t.Attempt = added(t.Attempt)
	case Either:
		t.Attempt = added(t.Attempt)
	}
	return Decision{Whose: whose, Tries: t}
}

// ofHost reports whether a failure is the host's: a response that limits requests, or any failure while its circuit
// breaker is open. A 403, or a 503 without a time to wait, counts only if the host has served a page before.
func (c *Case) ofHost() bool {
	o := &c.Outcome
	if o.Class == outcome.Throttled || o.Class == outcome.Unavailable && o.Waits {
		return true
	}
	return c.Evidence.Served && (o.Refused() || c.Down)
}

func (t *Tries) note(o *Outcome) {
	t.Class, t.Status = o.Class, uint16(o.Status)
	if outcome.Forbidden(o.Status) {
		t.Forbidden = added(t.Forbidden)
	}
}

func added[T uint8 | uint16](n T) T {
	if n+1 == 0 {
		return n
	}
	return n + 1
}
