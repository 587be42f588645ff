// Package http1 sends HTTP/1.1 requests without a body, as a crawler does, in the goroutine that asks.
//
// net/http gives every connection two goroutines, so that it can write and read at the same time, replay and upgrade.
// A crawler's GET is written in one piece, and then there is nothing to do but to read the answer: here the caller of
// [Transport.Do] does both, and its own [Watch] saves a context per request. Answers are parsed by
// [http.ReadResponse].
//
// A connection is lent to one request at a time, and kept when the answer has been read to its end and both sides may
// go on. A kept one that the server has closed meanwhile, or written to without being asked, is not lent again, nor
// is one that a Watch may have closed.
//
// A request is written once. If that fails, or no answer comes, the error says so and the caller decides.
//
// It has no proxies, no HTTP/2, no bodies to send and no time limits (a Watch has them).
package http1
