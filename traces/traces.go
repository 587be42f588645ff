// Package traces brings a client of OpenTelemetry, for crawls that tell a collector of each URL (traces.endpoint of the
// settings). It has no names of its own; import it for that effect:
//
//	import _ "github.com/treadlight/crawl/traces"
//
// A program that does not, and names a collector, gets an error that says so.
package traces

import (
	"github.com/treadlight/crawl/internal/assembly"
	"github.com/treadlight/crawl/internal/observe/traces"
)

func init() {
	assembly.Tracing.Register(func(cfg assembly.TraceConfig) (assembly.Tracer, error) {
		e, err := traces.New(traces.Config{
			Endpoint: cfg.Endpoint, Header: cfg.Header, Sample: cfg.Sample, Propagate: cfg.Propagate,
			Version: cfg.Version, Clock: cfg.Clock, Log: cfg.Log,
		})
		if err != nil { // a nil *Exporter would be a Tracer that is not nil
			return nil, err
		}
		return e, nil
	})
}
