package transport

import "net/http"

// Layers are the parts of a chain, outermost first; nil ones are left out. (A nil pointer in a ResponsePolicy is not
// nil.) Their owner closes the policies, after the last request.
type Layers struct {
	Fallback       ResponsePolicy // made by NewFallback
	Log            Middleware     // made by Log
	TotalTimeout   ResponsePolicy // made by NewTimeout
	Retry          ResponsePolicy // made by NewRetry
	Hedge          ResponsePolicy // made by NewHedge
	Breaker        ResponsePolicy // made by NewBreaker
	Isolation      ResponsePolicy // made by NewIsolation
	Bulkhead       ResponsePolicy // made by NewBulkhead
	RateLimit      Middleware     // made by RateLimit, or by Polite
	AttemptTimeout ResponsePolicy // made by NewTimeout
	Hints          Middleware     // made by Hints
}

type place struct {
	name    string
	wrap    Middleware // nil if there is none
	repeats bool       // it may send a request several times
}

func (l *Layers) order() []place {
	return []place{
		{name: "fallback", wrap: ApplyPerRequest(l.Fallback)},    // replaces whatever all others make of it
		{name: "log", wrap: l.Log},                               // tells what became of it, and nothing that was made up
		{name: "total timeout", wrap: Apply(l.TotalTimeout)},     // bounds the tries and the pauses between them together
		{name: "retry", wrap: Repeat(l.Retry), repeats: true},    // every try passes all below
		{name: "hedge", wrap: Repeat(l.Hedge), repeats: true},    // so that what it adds counts for one try, and pays below
		{name: "breaker", wrap: Apply(l.Breaker)},                // refuses before a place or a permit is taken
		{name: "isolation", wrap: ApplyPerRequest(l.Isolation)},  // a host that is full waits here and holds no place of all
		{name: "bulkhead", wrap: Apply(l.Bulkhead)},              // bounds what waits for a permit, too
		{name: "rate limit", wrap: l.RateLimit},                  // the last to wait: the request goes when it may go
		{name: "attempt timeout", wrap: Apply(l.AttemptTimeout)}, // is for the host alone: no time is lost in queues
		{name: "hints", wrap: l.Hints},                           // reads every answer, also those retried away
	}
}

// Order names the layers that are set, outermost first.
func (l Layers) Order() []string {
	var names []string
	for _, p := range l.order() {
		if p.wrap != nil {
			names = append(names, p.name)
		}
	}
	return names
}

// Chain puts the layers around base in the default order, that of the fields.
func (l Layers) Chain(base http.RoundTripper) http.RoundTripper {
	return l.chain(base, func(place) bool { return true })
}

// PageChain is Chain without what sends a request again: pages are retried by the frontier, where waiting costs no
// worker.
func (l Layers) PageChain(base http.RoundTripper) http.RoundTripper {
	return l.chain(base, func(p place) bool { return !p.repeats })
}

func (l *Layers) chain(base http.RoundTripper, keep func(place) bool) http.RoundTripper {
	var list []Middleware
	for _, p := range l.order() {
		if keep(p) {
			list = append(list, p.wrap)
		}
	}
	return Chain(base, list...)
}
