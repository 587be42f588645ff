// Package fetch asks for one URL and says exactly what became of it.
//
// A [Client] is a transport behind one verb: that of package http1 for HTTP/1.1, and that
// of net/http for HTTP/2 and proxies. [Client.Fetch] sends one GET and returns a
// [Response]: the status, the header, the body decoded and cut at a bound, where the time
// went. A redirect is an ordinary Response with its Location, because its target is a new
// URL that scope, robots.txt and limiter have to see first. Nothing is retried: whoever
// holds the permit decides whether to spend another.
//
// What can go wrong has a phase, an [Op], and a class from package outcome; both are
// in the [Error]. An error met while the body was read comes together with the
// Response, which then holds what had arrived.
//
// # One permit, one request
//
// A net/http transport sends an idempotent request again when a kept connection dies
// before the first byte of the answer, also when the host has seen the request. A
// limiter that counts permits would never know. Package http1 writes a request once, and
// to a proxy a Client gives its requests a shape that net/http does not replay. It sends
// again itself only when not one byte had left; otherwise the Error is marked Stale. Over
// HTTP/2, where such a shape would show on the wire, replays are counted: see Sends in
// Response and Error.
//
// # Bounds
//
// Each phase has a time limit, the whole has one, and the header, the decoded body and
// the encoded body have size limits, so that no server can hold a worker or fill the
// memory. Addresses that are private, loopback or otherwise not of the public Internet
// are refused when they are dialled, after the name was resolved, unless the host was
// named: a public name cannot be pointed inwards.
//
// # Policies
//
// [Config.Chain] puts policies of package transport around the transport: timeouts,
// bulkheads, a log. They see the plain request, and what they refuse ends with [OpPolicy]
// and without a verdict on the host. [Config.Repeating] may also send a request again, if
// it says so by its Again, which spends a permit for each further time: so that also then
// one permit is one request.
//
// # What it does not do
//
// It keeps no cookies, consults no robots.txt and waits for no limiter. It logs
// nothing, but with HTTP/2 or a proxy net/http writes "Unsolicited response" to the standard
// logger when a server sends more than it announced; a program that owns its standard error
// points package log elsewhere.
//
// A Client is safe for concurrent use. A Response belongs to one goroutine at a time.
package fetch
