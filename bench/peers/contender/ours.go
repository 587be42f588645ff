package main

import (
	"context"
	"errors"
	"io"
	"os"
	"runtime"
	"runtime/pprof"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/internal/records/sink"
	"github.com/treadlight/crawl/record"
)

// crawlOurs crawls as the command does with -o /dev/null, records thrown away, as often as the
// profile needs it: one crawl of a documentation is over before a profile has a
// thousand samples.
func crawlOurs(o options) (counts, error) {
	if len(o.seeds) == 0 {
		return counts{}, errUsage
	}
	if o.allocs != "" {
		runtime.MemProfileRate = 4 << 10 // bytes; the default would miss most of what is small
	}
	stop, err := profile(o.cpu)
	if err != nil {
		return counts{}, err
	}
	var n counts
	for range max(1, o.runs) {
		var snap crawl.Snapshot
		if snap, err = crawlOnce(o); err != nil {
			break
		}
		n.pages += snap.Pages
	}
	return n, errors.Join(err, stop(), writeAllocs(o.allocs))
}

// profile begins a CPU profile and returns what ends it; neither does anything without
// a path.
func profile(path string) (stop func() error, err error) {
	if path == "" {
		return func() error { return nil }, nil
	}
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() error {
		pprof.StopCPUProfile()
		return f.Close()
	}, nil
}

// outOfReach is the highest rate that settings may have, in requests per second.
const outOfReach = 10_000

func crawlOnce(o options) (crawl.Snapshot, error) {
	cfg := crawl.Options{}
	cfg.Politeness.Strategy = o.strategy
	cfg.Politeness.InitialRPS, cfg.Politeness.MaxRPS = outOfReach, outOfReach
	cfg.Concurrency, cfg.PerHostMax = o.inFlight, o.inFlight
	out, err := sink.New(io.Discard, sink.Config{})
	if err != nil {
		return crawl.Snapshot{}, err
	}
	cfg.Sinks = []record.Sink{out}
	c, err := crawl.New(cfg)
	if err != nil {
		return crawl.Snapshot{}, err
	}
	err = c.Run(context.Background(), o.seeds...)
	return c.Snapshot(), err
}

func writeAllocs(path string) error {
	if path == "" {
		return nil
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(pprof.Lookup("allocs").WriteTo(f, 0), f.Close())
}
