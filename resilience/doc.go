// Package resilience runs calls that may fail, hang or come too often, so that what goes
// wrong with one callee stays with it. A call is a function of a context, and its value is of
// any type; the glue for HTTP is in package transport.
//
// A [Policy] runs a call under one rule. [Retry] makes it again while it fails, [Timeout] bounds its time,
// [CircuitBreaker] spares a callee that is down, [BulkheadPolicy] bounds how many go on at a time and
// [IsolationPolicy] does so for each key, [Hedge] starts a second one beside a slow first, and [Fallback] replaces
// what is no use. [Wrap] makes one policy of several.
//
//	p := resilience.Wrap(total, retry, attempt) // total(retry(attempt(call)))
//	defer p.Close()
//	v, err := p.Execute(ctx, func(ctx context.Context) (Page, error) {
//		return get(ctx, address)
//	})
//
// A policy that keeps count of callees ([Breaker], [Bulkhead], [Isolation]) is a core without a type of value, which
// many policies may share, and a thin policy in front. A [Budget] bounds what retries and hedges add together. A
// [Registry] has policies by name, [Breakers] has breakers by name and answers health checks. What policies do is
// told to a [Hub] as an [Event]. Package binder makes policies of a JSON document.
//
// A [Classification] is what a result says about the callee, and a [Classifier] reads it: who
// gives up himself, and a refusal by a policy further in, say nothing, which is [Ignored]. Where
// a [Bind] says when the life of a value ends, as that of a response with its body, the scope of
// a policy ends with it. A value which nobody will get goes to the policy's Discard at once.
//
// # The default order, from the outermost
//
//	fallback         has the last word on whatever comes out of the others
//	log              sees the call as the caller does, with all its attempts as one
//	total timeout    is what the caller waits at most, delays between attempts included
//	retry            has each attempt pass all that follow, and pay for it
//	hedge            is one attempt to the retry, of as many calls as it takes
//	breaker          counts each call once, and refuses before one waits for a place
//	bulkhead         holds a place only while there is a call, not through a delay
//	rate limit       is asked last, so that no permit is spent on a call that is not made
//	attempt timeout  measures the callee, not the wait for a place or a permit
//
// # What always holds
//
//   - A caller who gives up gets his turn to leave at once, from every wait here, with
//     the cause of his context. His leaving counts for nothing against the callee.
//   - A scope ends exactly once, whether the call returns, panics or ends its goroutine
//     with runtime.Goexit, both of which pass through.
//   - A value goes to the caller or to Discard, never to both and never to neither.
//   - Close may be called twice, and a closed policy refuses with [ErrClosed].
//   - Nobody's code is called with a lock held, and a listener of a Hub can neither delay nor
//     break a call.
//
// All of it is safe for concurrent use. Policies wait in the system's time, which in a bubble of
// testing/synctest is that of the bubble. Calls are expected to honour their contexts: nothing
// here leaves a call behind to run on unseen.
package resilience
