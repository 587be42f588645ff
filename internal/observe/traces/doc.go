// Package traces tells a collector of OpenTelemetry what became of single URLs, and when.
//
// An [Exporter] is the [pipeline.Tracer] of one crawl. A URL is a trace:
//
//	crawl URL      from when it was found until its record was written
//	├ queue        in the frontier, until it was leased for the last time
//	├ permit       the wait for the limiter, once for each try
//	├ GET          a request, once for each try: dns, connect, tls, first byte, body
//	├ robots.txt   the request for the rules that the URL had to wait for, if it was the first
//	├ process      decoding, links, text, handlers
//	└ write        sinks and archives
//
// The IDs of a trace and of its root are made from the URL and a secret of the process, so
// that the tries of a URL, which are hours apart perhaps, meet in one trace without anything
// being remembered, and the share of URLs that is traced is the same URLs throughout. Names
// of attributes are those of the semantic conventions (1.43) where there are any; URLs and
// errors are redacted as in the log.
//
// # What it costs
//
// A URL that is not traced costs the hashing of its name. Spans of the others are made when
// the URL is done with, and handed to the batches of the official SDK; the room for spans
// that wait is bounded, and those beyond it are counted and dropped. So a collector that is
// slow, away, or says no takes nothing from the crawl. What it gets is sent by OTLP over
// HTTP, in protobuf, by a client of our own: the SDK's would bring gRPC into the binary.
//
// [New] starts nothing. [Exporter.Start] starts a goroutine, which [Exporter.Close] ends
// within a bounded time, having sent what it could.
package traces
