// Package console brings what a crawl is seen and steered by over HTTP: crawl.Listen, and with it metrics for Prometheus.
// It has no names of its own; import it for that effect:
//
//	import _ "github.com/treadlight/crawl/console"
//
// A program that does not, and listens, gets an error that says so.
package console

import _ "github.com/treadlight/crawl/internal/assembly/watch" // registers itself
