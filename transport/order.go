package transport

import "net/http"

// Layers are the parts of a chain, outermost first; nil ones are left out. (A ResponsePolicy that holds a nil pointer
// is not nil.) The chain does not close the policies: close them after the last request.
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
	wrap    Middleware // nil if the layer is absent
	repeats bool       // whether it may send a request several times
}

func (l *Layers) order() []place {
	return []place{
		{name: "fallback", wrap: ApplyPerRequest(l.Fallback)},    // replaces what comes out of all the others
		{name: "log", wrap: l.Log},                               // sees the final result, but not a replacement
		{name: "total timeout", wrap: Apply(l.TotalTimeout)},     // bounds all attempts and the pauses between them together
		{name: "retry", wrap: Repeat(l.Retry), repeats: true},    // every attempt passes all layers below
		{name: "hedge", wrap: Repeat(l.Hedge), repeats: true},    // its requests count as one attempt, and each passes the layers below
		{name: "breaker", wrap: Apply(l.Breaker)},                // refuses before a place or a permit is taken
		{name: "isolation", wrap: ApplyPerRequest(l.Isolation)},  // requests to a host that is full wait here, without holding a place of the bulkhead
		{name: "bulkhead", wrap: Apply(l.Bulkhead)},              // also bounds the requests that wait for a permit
		{name: "rate limit", wrap: l.RateLimit},                  // the last to wait, so that a request with a permit is sent at once
		{name: "attempt timeout", wrap: Apply(l.AttemptTimeout)}, // measures the host alone, without the waits above
		{name: "hints", wrap: l.Hints},                           // reads every response, also those that are retried
	}
}

// Order returns the names of the layers that are set, outermost first.
func (l Layers) Order() []string {
	var names []string
	for _, p := range l.order() {
		if p.wrap != nil {
			names = append(names, p.name)
		}
	}
	return names
}

// Chain puts the layers around base in the default order, which is that of the fields.
func (l Layers) Chain(base http.RoundTripper) http.RoundTripper {
	return l.chain(base, func(place) bool { return true })
}

// PageChain is Chain without the layers that send a request again. The frontier retries pages instead, because there a
// page that waits occupies no worker.
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
