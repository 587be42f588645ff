package realserver

import (
	"net/http"
	"time"
)

// Figures is how a client fared at a server over a span of time.
type Figures struct {
	Requests int // how many arrived
	Refused  int // how many of them got another status than 2xx and 404
	// Blocks is how often an admitted request was followed by nothing but refusals, or by none
	// after a refusal, for blockSpan or longer.
	Blocks int
	Inside int     // how many requests came while the Retry-After of a refusal ran
	Used   float64 // the admitted share of what was available, more than 1 in a short time with a burst
}

// RefusedShare is Refused by Requests, 0 to 1, and zero without any.
func (f Figures) RefusedShare() float64 {
	if f.Requests == 0 {
		return 0
	}
	return float64(f.Refused) / float64(f.Requests)
}

const (
	// blockSpan distinguishes a block from an empty bucket: the slowest limit here, 2 per
	// second, admits a retry within it.
	blockSpan = 2 * time.Second
	// inTransit is how late a request may arrive and still have been sent before its client
	// knew of a refusal, on a busy machine.
	inTransit = 200 * time.Millisecond
)

// Measure computes the figures of the hits, in order of arrival, in [from, to) at a server that
// admits available requests per second. A Retry-After from before counts too.
func Measure(hits []Hit, from, to time.Time, available float64) Figures {
	var f Figures
	var hints []Hit // refusals with a Retry-After, by arrival
	var admitted, blocked time.Time
	for _, h := range hits {
		if !h.At.Before(to) {
			break
		}
		in := !h.At.Before(from)
		if in {
			f.Requests++
			if within(hints, h.At) {
				f.Inside++
			}
		}
		if h.Status/100 == 2 || h.Status == http.StatusNotFound {
			if in && !blocked.IsZero() && h.At.Sub(blocked) >= blockSpan {
				f.Blocks++
			}
			admitted, blocked = h.At, time.Time{}
			continue
		}
		if in {
			f.Refused++
		}
		if blocked.IsZero() && !admitted.IsZero() {
			blocked = h.At
		}
		if h.RetryAfter > 0 {
			hints = append(hints, h)
		}
	}
	if !blocked.IsZero() && to.Sub(blocked) >= blockSpan && f.Refused > 0 {
		f.Blocks++ // until the end
	}
	if capacity := available * to.Sub(from).Seconds(); capacity > 0 {
		f.Used = float64(f.Requests-f.Refused) / capacity
	}
	return f
}

func within(hints []Hit, at time.Time) bool {
	for _, o := range hints {
		if told := o.At.Add(o.Took); at.After(told.Add(inTransit)) && at.Before(told.Add(o.RetryAfter)) {
			return true
		}
	}
	return false
}
