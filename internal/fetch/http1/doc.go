// Package http1 sends HTTP/1.1 requests without a body, as a crawler does, in the goroutine that asks.
//
// net/http's transport gives every connection two goroutines, so that it can write and read at the same time, replay,
// upgrade and speak HTTP/2. A crawler's GET needs none of that: it is written in one piece, and then there is nothing
// to do but to read the answer. Here the caller of [Transport.Do] writes and reads by itself, which saves the
// hand-overs between goroutines, and it brings its own [Watch], which saves a context per request. The meaning of
// what is read stays net/http's affair: answers are parsed by [http.ReadResponse].
//
// # A connection's life
//
// It is made by the functions in [Config], is lent to one request at a time, and is kept when the answer has been
// read to its end and both sides may go on; otherwise it is closed. A kept one is asked for a sign of life before it
// is lent again: what a server has closed meanwhile, or has written without being asked, is no good, be it still in
// the network or already in the buffers of TLS. The oldest ones are closed when there are more than MaxIdle, and each
// after IdleTimeout.
//
// # The invariant
//
// A request is written once. If that fails, or no answer comes, the error says so and the caller decides; its Watch
// has seen which connection it was. A connection that the Watch may have closed is never lent again.
//
// # What it does not do
//
// It has no proxies, no HTTP/2, no bodies to send, no time limits (a Watch has them), and
// it does not read answers while a request is still being written: a request is short.
package http1
