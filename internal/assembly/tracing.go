package assembly

import (
	"errors"
	"net/http"
	"os"

	"github.com/treadlight/crawl/internal/observe/traces"
)

// newTracer is what tells a collector of URLs; nil if the settings name none, or no URL is
// to be told of.
func (c *Crawler) newTracer() (*traces.Exporter, error) {
	s := &c.cfg.Traces
	if s.Endpoint == "" || s.Sample == 0 {
		return nil, nil
	}
	h := make(http.Header)
	r := identityReader{s: &c.cfg.Settings, lookup: os.LookupEnv}
	if r.headers("traces.headers", s.Headers, h); len(r.errs) > 0 {
		return nil, errors.Join(r.errs...)
	}
	return traces.New(traces.Config{
		Endpoint: s.Endpoint, Header: h, Sample: s.Sample, Insecure: s.Insecure, Propagate: s.Propagate,
		Version: c.cfg.Version, Clock: c.clk, Log: c.cfg.Log,
	})
}
