// Package attribution decides whose a failure is: the URL's or its host's.
//
// A host that limits rates and a page that refuses every request give the same response, and a host that is down
// fails like a page that is broken. A [Host] keeps what a host's responses have shown so far. When a URL is leased
// [Host.Begin] makes of it the [Evidence] for that one request, and [Decide] says what a failure means by that
// evidence:
//
//   - The first failure of a URL is attributed to the host: the limiter hears of it.
//   - The URL is asked for again when the host has answered another one since. That is an
//     isolated retry, with nothing else under way and after a pause, so that no limit can be the
//     reason. If it fails again, that is the URL's own failure: an attempt is spent, and the host
//     is not slowed.
//   - A failure while the host answers nothing is the host's and spends no attempt, for a day.
//   - Where no other URL is left to ask, one that the host has answered before is asked for
//     again: a control request.
//
// A host where several URLs failed on their own, and none of them was ever answered later, serves some URLs and
// refuses others: there a failure between two responses is the URL's from the first on, and no retry is isolated. A
// host that has answered a URL later which it had refused has a limit: there a retry is isolated only after the third
// failure of its URL.
package attribution

import (
	"time"

	"github.com/treadlight/crawl/internal/ratelimit/outcome"
)

// Subject is what a request asks for, as far as its outcome is evidence about the host.
type Subject uint8

// The subjects.
const (
	Page    Subject = iota // a URL of the crawl
	Rules                  // robots.txt, which is served by hosts that refuse all else
	Control                // a page that was served before
)

// Outcome is what came of a request. The zero Outcome says nothing: no request was made.
type Outcome struct {
	Class       outcome.Class
	Status      int  // of the response; zero if there was none
	Waits       bool // the response says how long to wait
	Lost        bool // with a kept connection, or over a condition: it says nothing of URL or host
	Unreachable bool // nothing listens there
}

// Answered reports a response, whatever it says.
func (o *Outcome) Answered() bool { return o.Status != 0 }

// Served reports a response that the host gave willingly. A 403 is none: it may forbid the page or the request.
func (o *Outcome) Served() bool {
	return o.Answered() && !o.Class.Overload() && o.Class != outcome.Canceled && !outcome.Forbidden(o.Status)
}

// Refused reports a response that limits of rate give.
func (o *Outcome) Refused() bool {
	return o.Class == outcome.Throttled || o.Class == outcome.Unavailable || outcome.Forbidden(o.Status)
}

// Failed reports whether the same request may be answered later.
func (o *Outcome) Failed() bool { return o.Class.Transient() || outcome.Forbidden(o.Status) }

// Tries is what has come of the requests for a URL so far.
type Tries struct {
	Attempt     uint8         // requests that count as attempts
	URLFailures uint8         // failures that were the URL's own
	Forbidden   uint8         // 403s it met
	Class       outcome.Class // of the last failure
	Returns     uint16        // requests that are no attempts: the host failed, or a connection was lost
	Status      uint16        // of the last response that was a failure; zero if there was none
	Since       int32         // pages its host had served, plus one, when it failed last; zero if it has not
}

// None reports whether the URL was not asked for yet.
func (t *Tries) None() bool { return *t == Tries{} }

// Lifted reports a response to a URL that had met a 403 before: so that meant "later".
func (t *Tries) Lifted(status int) bool {
	return t.Forbidden > 0 && status != 0 && status/100 <= 3
}

// Attribution says whose a failure is.
type Attribution uint8

// The attributions.
const (
	Nobody Attribution = iota // nobody's: there was none, or it says nothing
	Either                    // it is not known whose: an attempt is spent
	OfURL                     // the URL's: an attempt is spent, and the host is not to blame
	OfHost                    // the host's: no attempt is spent
)

// Evidence is what the history of a host says about one request, as it stood when the URL was leased.
type Evidence struct {
	// OfURL says that a failure is the URL's own: the host answers others.
	OfURL bool
	// Clears says that the failure before, which the limiter was told of, was the URL's own too.
	Clears bool
	// Served says that the host has answered a page, now or before this process had it.
	Served bool
	// FirstContact says that no response of the host had come.
	FirstContact bool
	// FailingSince is when the host failed first since it answered last; zero: it answers.
	FailingSince time.Time

	subject Subject
	counted bool // its outcome is in the host's history
	number  uint32
}

// Number counts the requests to the host, from 1.
func (e *Evidence) Number() uint32 { return e.number }

// Deserted reports a request that met nobody at a host that has never answered.
func (e *Evidence) Deserted(o *Outcome) bool { return o.Unreachable && e.FirstContact }

// Case is one outcome to be attributed.
type Case struct {
	Evidence Evidence
	Tries    Tries // before it
	Outcome  Outcome
	Down     bool // the circuit breaker of the host is open
	Retries  int  // after the first attempt
	Now      time.Time
}

// Decision is what an outcome means for its URL.
type Decision struct {
	Whose Attribution
	Final bool  // the URL is not asked for again
	Tries Tries // after it
}

const (
	// MaxOutage is for how long the failures of a host that answers nothing spend no attempt.
	MaxOutage = 24 * time.Hour
	// MaxContacts is how often a host without any response is tried when nothing listens there. That is most often a
	// wrong port; the second try is for a server that is just restarting.
	MaxContacts = 2
)

// Decide says whose an outcome is, and whether its URL is asked for again. It is called for pages alone.
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

// Again is the decision that a URL of so many tries is asked for again after a failure.
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
// breaker is open. A 403 or bare 503 of a host that never answered a page counts as a response.
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
