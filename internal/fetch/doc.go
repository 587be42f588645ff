// Package fetch requests one URL and reports exactly what happened.
//
// A [Client] has one transport: that of package http1 for HTTP/1.1, or that of net/http if HTTP/2 is wanted.
// [Client.Fetch] sends one request. A redirect is an ordinary [Response], because its target is a new URL that scope,
// robots.txt and limiter have to check first. An [Error] has a phase, its [Op], and a class of package outcome. If it
// occurred while the body was read, the Response is returned with it and has what had arrived.
//
// # One permit, one request
//
// net/http sends an idempotent request again when a kept connection ends before the first byte of the response, even if
// the host has seen the request, and a limiter would not know. Package http1 writes a request once, and with HTTP/2
// net/http is prevented from repeating it. A Client itself sends a request again only if not one byte of it was sent.
// In other cases the Error is marked Stale.
//
// [Config.Chain] puts policies of package transport around the transport. Requests that they refuse fail with
// [OpPolicy], which says nothing about the host. [Config.Repeating] may send a request again, if its Again takes a
// permit for that.
//
// # Bounds
//
// Each phase and the whole request have a time limit. The header, the body, decoded and encoded, and the ratio of both
// have size limits. A [Filter] decides by the header which bodies are not read. Connections to addresses that are not
// of the public Internet are refused, unless the user named them: see [reach.Openings].
//
// # Where credentials are sent
//
// Credentials are sent where [Config.Trusted] allows it, and to the hosts that they were given for, but there not in
// the clear unless Trusted allows that. So neither a link nor a redirect can make the Client send them elsewhere.
// Failures of a proxy have [OpProxy], and the class proxy unless it is the host that cannot be reached.
//
// The package reads no robots.txt, waits for no limiter and logs nothing, except that net/http writes "Unsolicited
// response" to package log when an HTTP/2 server sends more than it announced. A Client is safe for concurrent use. A
// Response belongs to one goroutine at a time.
package fetch
