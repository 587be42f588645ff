// Package fetch asks for one URL and says exactly what became of it.
//
// A [Client] is a transport behind one verb: that of package http1 for HTTP/1.1, and that of net/http if HTTP/2 is
// wanted. [Client.Fetch] sends one GET. A redirect is an ordinary [Response], because its target is a new URL that
// scope, robots.txt and limiter have to see first. What goes wrong has a phase, an [Op], and a class from package
// outcome. An [Error] met while the body was read comes together with the Response, which holds what had arrived.
//
// # One permit, one request
//
// net/http sends an idempotent request again when a kept connection dies before the first byte of the answer, also
// when the host has seen the request, and a limiter would never know. Package http1 writes a request once, and with
// HTTP/2 net/http is kept from replays. A Client sends again itself only when not one byte had left; otherwise the
// Error is marked Stale.
//
// [Config.Chain] puts policies of package transport around the transport; what they refuse ends with [OpPolicy] and
// says nothing about the host. [Config.Repeating] may send a request again, if it spends a permit by its Again.
//
// # Bounds
//
// Each phase and the whole have a time limit; the header, the body, decoded and encoded, and the ratio of both have
// size limits. What nobody wants by its header, a [Filter] leaves with the server. Addresses that are not of the
// public Internet are refused when they are dialled, unless the user named them: see [reach.Openings].
//
// # Who we are to whom
//
// Credentials go where [Config.Trusted] says, and to the hosts that they were given for, but not in the clear unless
// the host was named so: neither a link nor a redirect can lead them anywhere else. What a proxy fails to do has
// [OpProxy], and the class proxy unless it is the host that cannot be reached.
//
// It consults no robots.txt, waits for no limiter and logs nothing, but net/http writes "Unsolicited response" to
// package log when a server of HTTP/2 sends more than it announced. A Client is safe for concurrent use. A Response
// belongs to one goroutine at a time.
package fetch
