package robots

import (
	"fmt"
	"time"

	"github.com/treadlight/crawl/internal/ratelimit/outcome"
)

// MaxRedirects is how many redirects are followed for one robots.txt (RFC 9309 section 2.3.1.2).
// A file behind more does not exist.
const MaxRedirects = 5

// Answer is how one request for robots.txt ended.
type Answer struct {
	Status     int           // zero if no header arrived
	Err        error         // nil if the answer arrived whole
	Body       []byte        // what arrived of the body, decoded
	Location   string        // target of a redirect; empty if there is none
	Hops       int           // redirects already followed on the way to this answer
	RetryAfter time.Duration // the host's wish; zero if it had none
}

// Kind is the meaning of an [Answer].
type Kind uint8

// The kinds. The zero Kind is NoAnswer.
const (
	NoAnswer  Kind = iota // we gave up before one came: ask again
	Throttled             // the host asks for patience: ask again later
	Found                 // there is a file
	Absent                // there is none: everything is allowed
	Moved                 // ask at Location, with one hop more, before telling the cache
	Failed                // the host cannot say: everything is forbidden for now
)

// Result is what follows from an [Answer].
type Result struct {
	Kind       Kind
	File       *File         // of kind Found; otherwise nil
	Location   string        // of kind Moved, unresolved; otherwise empty
	RetryAfter time.Duration // do not ask again sooner; zero means the schedule decides
	Reason     string        // for people, such as "status 503"
	Class      outcome.Class // of the answer; Unknown if the Result was not made of one
	Lasting    bool          // of kind Failed: waiting will not cure it, such as a name that does not exist
}

// FromAnswer classifies an answer. A body that was cut at a size limit is parsed; one that broke
// off is not, because a rule may be missing.
func FromAnswer(a Answer) Result {
	class, success := classOf(a)
	r := Result{RetryAfter: a.RetryAfter, Reason: reason(a, class), Class: class}
	switch {
	case class == outcome.Canceled, class == outcome.Unknown:
		r.Kind = NoAnswer
	case class == outcome.Throttled:
		r.Kind = Throttled
	case success && (class == outcome.OK || class == outcome.TooLarge):
		r.Kind, r.File = Found, Parse(a.Body)
	case class == outcome.Redirect && a.Location != "" && a.Hops < MaxRedirects:
		r.Kind, r.Location = Moved, a.Location
	case class == outcome.Redirect, class == outcome.OK, a.Status/100 == 4:
		r.Kind = Absent // 3xx that leads nowhere, and every 4xx that is left
	default:
		r.Kind, r.Lasting = Failed, a.Status == 0 && !class.Transient()
	}
	return r
}

// classOf is the class of an answer. The body matters only for a success.
func classOf(a Answer) (class outcome.Class, success bool) {
	success = a.Status/100 == 2
	class = outcome.Of(a.Status, a.Err)
	if a.Status != 0 && !success && class != outcome.Canceled {
		class = outcome.Of(a.Status, nil)
	}
	return class, success
}

func reason(a Answer, class outcome.Class) string {
	switch {
	case class == outcome.Redirect && a.Hops >= MaxRedirects:
		return fmt.Sprintf("more than %d redirects", MaxRedirects)
	case a.Err != nil && !class.Answered():
		return fmt.Sprintf("%v: %v", class, a.Err)
	}
	return fmt.Sprintf("status %d", a.Status)
}
