package realserver

import (
	"net/http"
	"time"
)

// Figures is how a client fared at a server over a span of time.
type Figures struct {
	// Requests is how many arrived.
	Requests int
	// Refused is how many of them got another status than 2xx and 404: a page that does not
	// exist, such as a sitemap that was looked for, was let through to where it might be.
	Refused int
	// Blocks is how often the door was shut: an admitted request was followed by
	// nothing but refusals, or silence after a refusal, for blockSpan or longer.
	Blocks int
	// Inside is how many requests came while the Retry-After of a refusal ran.
	Inside int
	// Used is the admitted share of what was available over the span, about 0 to 1;
	// what a server allows at once comes on top, so short spans may show more.
	Used float64
}

// RefusedShare is Refused by Requests, 0 to 1, and zero without any.
func (f Figures) RefusedShare() float64 {
	if f.Requests == 0 {
		return 0
	}
	return float64(f.Refused) / float64(f.Requests)
}

const (
	// blockSpan tells a door that is shut from a bucket that is empty for a moment. At
	// the slowest limit here, 2 per second, an honest retry is admitted within it.
	blockSpan = 2 * time.Second
	// underWay is how late a request may arrive and still have been sent before its
	// client could know of a refusal. Loopback takes microseconds; what is allowed for
	// is two busy processors and a race detector. Orders are of whole seconds: whoever
	// ignores one is seen all the same.
	underWay = 200 * time.Millisecond
)

// Measure looks at the hits that arrived in [from, to) of a server that has available
// requests per second to give. The hits must be in order of arrival. Those before from
// count where they reach into the span: with a Retry-After that still runs.
func Measure(hits []Hit, from, to time.Time, available float64) Figures {
	var f Figures
	var orders []Hit // refusals with a Retry-After, by arrival
	var admitted, shut time.Time
	for _, h := range hits {
		if !h.At.Before(to) {
			break
		}
		in := !h.At.Before(from)
		if in {
			f.Requests++
			if within(orders, h.At) {
				f.Inside++
			}
		}
		if h.Status/100 == 2 || h.Status == http.StatusNotFound {
			if in && !shut.IsZero() && h.At.Sub(shut) >= blockSpan {
				f.Blocks++
			}
			admitted, shut = h.At, time.Time{}
			continue
		}
		if in {
			f.Refused++
		}
		if shut.IsZero() && !admitted.IsZero() {
			shut = h.At
		}
		if h.RetryAfter > 0 {
			orders = append(orders, h)
		}
	}
	if !shut.IsZero() && to.Sub(shut) >= blockSpan && f.Refused > 0 {
		f.Blocks++ // it was still shut at the end
	}
	if capacity := available * to.Sub(from).Seconds(); capacity > 0 {
		f.Used = float64(f.Requests-f.Refused) / capacity
	}
	return f
}

// within reports whether an order to wait, known to the client, still ran at that time.
func within(orders []Hit, at time.Time) bool {
	for _, o := range orders {
		if told := o.At.Add(o.Took); at.After(told.Add(underWay)) && at.Before(told.Add(o.RetryAfter)) {
			return true
		}
	}
	return false
}
