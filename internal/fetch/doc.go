// Package fetch asks for one URL and says exactly what became of it.
//
// A [Client] is a transport behind one verb: that of package http1 for HTTP/1.1, and that of net/http if HTTP/2 is
// wanted. [Client.Fetch] sends one GET and returns a [Response]: the status, the header, the body decoded and cut at
// a bound, where the time went. A redirect is an ordinary Response with its Location, because its target is a new URL
// that scope, robots.txt and limiter have to see first. What goes wrong has a phase, an [Op], and a class from
// package outcome, both in the [Error]. An error met while the body was read comes together with the Response, which
// then holds what had arrived.
//
// # One permit, one request
//
// A net/http transport sends an idempotent request again when a kept connection dies before the first byte of the
// answer, also when the host has seen the request. A limiter that counts permits would never know. Package http1
// writes a request once. A Client sends again itself only when not one byte had left; otherwise the Error is marked
// Stale. With HTTP/2 net/http is kept from sending again.
//
// [Config.Chain] puts policies of package transport around the transport, which see the plain request; what they
// refuse ends with [OpPolicy] and says nothing about the host. [Config.Repeating] may also send a request again, if
// it says so by its Again, which spends a permit for each further time.
//
// # Bounds
//
// Each phase has a time limit, the whole has one, and the header, the decoded body, the encoded body and the ratio of
// both have size limits, so that no server can hold a worker or fill the memory; a decoder takes 16 MiB at most. What
// nobody wants by its header, a [Filter] leaves with the server. Addresses that are not of the public Internet are
// refused when they are dialled, after the name was resolved, unless the user named them: see [reach.Openings].
//
// # Who we are to whom
//
// Package access says what a host gets besides what all get, package cookies what it has set itself, package resolve
// where it is. Credentials go where [Config.Trusted] says, and to the hosts that they were given for, but not in the
// clear unless the host was named so: a link cannot lead them anywhere else, nor can a redirect, whose target is a
// request of its own. What a proxy fails to do has [OpProxy], and the class proxy unless it is the host that cannot
// be reached.
//
// It consults no robots.txt, waits for no limiter and logs nothing, but with HTTP/2 net/http
// writes "Unsolicited response" to package log when a server sends more than it announced.
//
// A Client is safe for concurrent use. A Response belongs to one goroutine at a time.
package fetch
