// Package resilience runs calls that may fail, hang or come too often, so that trouble with one callee does not spread.
// A call is a function of a context, and its value may have any type; package transport adapts the policies to HTTP.
//
// A [Policy] runs a call under one rule. [Retry] repeats it while it fails, [Timeout] bounds its time, [CircuitBreaker]
// spares a callee that is down, [BulkheadPolicy] bounds the calls in flight ([NewIsolationPolicy] for each key),
// [Hedge] starts a second call when the first is slow, and [Fallback] replaces useless results. [Wrap] makes one policy
// of several.
//
//	p := resilience.Wrap(total, retry, attempt) // total(retry(attempt(call)))
//	defer p.Close()
//	v, err := p.Execute(ctx, func(ctx context.Context) (Page, error) {
//		return get(ctx, address)
//	})
//
// State about callees is kept by a [Breaker], [Bulkhead] or [Isolation], which are independent of the type of value and
// may be shared by many policies; the policy is a thin layer in front. A [Budget] bounds the calls that retries and
// hedges add together. A [Registry] holds policies by name; [Breakers] holds breakers by name and answers health
// checks. A [Hub] passes on what policies do, as [Event] values. Package binder makes policies of a JSON document.
//
// A [Classification] says what a result tells about the callee, and a [Classifier] finds it. A caller that gives up,
// and a refusal by an inner policy, tell nothing: they are [Ignored]. If a [Bind] says when the life of a value ends,
// as that of a response with its body, the scope of a policy lasts until then. A value that nobody gets goes to the
// policy's Discard at once.
//
// # The default order, from the outermost
//
//	fallback         replaces what comes out of all the others
//	log              sees the call as the caller does, all attempts as one
//	total timeout    bounds the time that the caller waits, including delays between attempts
//	retry            sends each attempt through everything below, with its own costs
//	hedge            is one attempt to the retry, however many calls it makes
//	breaker          counts each call once, and refuses it before it waits for a place
//	bulkhead         holds a place only during a call, and not during a delay
//	rate limit       comes last, so that no permit is spent on a call that is not made
//	attempt timeout  measures the callee, and not the wait for a place or a permit
//
// # What always holds
//
//   - A caller whose context ends can leave at once, wherever it waits in this package, with the cause of the context.
//     That never counts against the callee.
//   - A scope ends exactly once, whether the call returns, panics or ends its goroutine with runtime.Goexit. The last
//     two pass through.
//   - Every value goes either to the caller or to Discard, and never to both.
//   - Close may be called twice, and a closed policy refuses with [ErrClosed].
//   - No function of the program is called with a lock held, and a listener of a Hub can neither delay nor break a
//     call.
//
// All of it is safe for concurrent use. Policies wait by the system clock, which in a bubble of testing/synctest is
// that of the bubble. Calls are expected to obey their contexts: no policy leaves a call behind to run unseen.
package resilience
