// Package fetch asks for one URL and says exactly what became of it.
//
// A [Client] is a transport behind one verb: that of package http1 for HTTP/1.1, and that
// of net/http if HTTP/2 is wanted. [Client.Fetch] sends one GET and returns a
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
// limiter that counts permits would never know. Package http1 writes a request once. A
// Client sends again itself only when not one byte had left; otherwise the Error is marked
// Stale. With HTTP/2 it is net/http that would send again, and it is kept from it when it has
// found another connection.
//
// # Bounds
//
// Each phase has a time limit, the whole has one, and the header, the decoded body and
// the encoded body have size limits, so that no server can hold a worker or fill the
// memory. Addresses that are private, loopback or otherwise not of the public Internet
// are refused when they are dialled, after the name was resolved, unless the user named
// them: see [reach.Openings].
//
// # Who we are to whom
//
// Package access says what a host gets besides what all get, package cookies what it has
// set itself, package resolve where it is. Credentials go where [Config.Trusted] says, and to
// the hosts that they were given for, but not in the clear unless the host was named so: a
// link cannot lead them anywhere else, nor can a redirect, whose target is a request of its
// own. Proxies are the dialler's affair. What one fails to do has [OpProxy], and the class
// proxy unless it is the host that cannot be reached.
//
// A body may not decode to absurdly more than was sent, either, and a decoder takes 16 MiB of
// memory at most beside it. What nobody wants by its header, a [Filter] leaves with the server.
//
// # For archives
//
// [Request.Capture] has the exchange in the Response as it was on the wire: see [Capture]. It
// is bounded as the body is, and without it nothing is kept.
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
// It consults no robots.txt and waits for no limiter, and keeps cookies only in a jar that it
// is given. It logs
// nothing, but with HTTP/2 net/http writes "Unsolicited response" to the standard
// logger when a server sends more than it announced; a program that owns its standard error
// points package log elsewhere.
//
// A Client is safe for concurrent use. A Response belongs to one goroutine at a time.
package fetch
