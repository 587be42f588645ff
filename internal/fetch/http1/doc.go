// Package http1 sends HTTP/1.1 requests in the goroutine of the caller, for a crawler's needs.
//
// net/http gives every connection two goroutines, so that it can write and read at the same time, replay requests and
// upgrade. The request of a crawler is written in one piece, and then only the response is to be read. So the caller of
// [Transport.Do] does both here. Responses are parsed by [http.ReadResponse].
//
// A connection serves one request at a time. It is kept when the response was read to its end and both sides allow
// that. A kept connection is not used again if the server has closed it meanwhile or has written to it without a
// request, or if the end of a request's context may have closed it.
//
// A request is written once. If that fails, or no response arrives, Do returns the error and the caller decides.
//
// The package has no proxies, no HTTP/2, no streamed request bodies and no time limits (the context of a request has them).
package http1
