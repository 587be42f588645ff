package assembly

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/treadlight/crawl/internal/backend"
	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/pipeline"
	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/internal/web/canonical"
)

// Fleets makes the part of a process in a crawl of several, which has the budgets of the limiter be those of all:
// package fleet registers it.
var Fleets = backend.New[func(*Crawler, *ratelimit.Config) (Fleet, error)]("a crawl that several processes share", "redis")

// Fleet is this process's part in a crawl of several.
type Fleet interface {
	// Open makes the job of the settings, or joins it, once the crawl has a limiter and a scope.
	Open() error
	// Join has the pipeline work on the job.
	Join(*pipeline.Config)
	// Run does what operators say to all processes of the job, until ctx ends.
	Run(ctx context.Context)
	// Unanswered reports that no host has answered any process, as last heard.
	Unanswered() bool
	// Figures asks nothing of anybody.
	Figures() frontier.JobFigures
	// Opening is what the job has of a host and a port that users named; empty for nothing. SetOpening notes it, unless
	// another process has before.
	Opening(ctx context.Context, host string) (addrs string, err error)
	SetOpening(ctx context.Context, host, addrs string) error
	// End gives everything back at the end of a run that had this error. Of two the first counts.
	End(error) error
}

// FleetError is trouble with a crawl of several processes or with its Redis.
type FleetError struct {
	Job string
	Err error // says what is wrong; [ErrNoJob] if there is no such job
}

func (e *FleetError) Error() string {
	if terms, ok := errors.AsType[*frontier.TermsError](e.Err); ok {
		return fleetTerms(terms)
	}
	if errors.Is(e.Err, frontier.ErrNoJob) {
		return fmt.Sprintf("there is no job %s: begin it by giving URLs, or see --job and --redis", e.Job)
	}
	return fmt.Sprintf("the job %s: %s", e.Job, strings.TrimPrefix(e.Err.Error(), "job "+e.Job+": "))
}

func (e *FleetError) Unwrap() error { return e.Err }

// ErrNoJob and ErrJobComplete are what a [FleetError] is if the job to join is not there, or has nothing left to do.
var (
	ErrNoJob       = frontier.ErrNoJob
	ErrJobComplete = frontier.ErrComplete
)

var flagsOfSet = map[string]string{"max_pages": "--max-pages N", "max_time": "--max-time TIME"}

// fleetTerms names each setting of which the job has another value, and how to have the same.
func fleetTerms(e *frontier.TermsError) string {
	var b strings.Builder
	fmt.Fprintf(&b, "the job %s is crawled with other settings:", e.Job)
	for _, d := range e.Diffs {
		fmt.Fprintf(&b, "\n  %s: %s there, %s here", d.Term, cmp.Or(d.Job, "nothing"), cmp.Or(d.Here, "nothing"))
		if d.Term == "engine" {
			b.WriteString(": run the version of crawl that made the job")
		} else if flag := flagsOfSet[d.Term]; flag != "" && d.Job != "" {
			fmt.Fprintf(&b, "; 'crawl fleet set --job %s %s' changes it for all", e.Job, flag)
		}
	}
	return b.String() + "\ngive the same settings, or name another job by --job"
}

// hearSeed lets in what the seed of another process lets in. It allows no private address: a client of the console may
// have brought it. What the users of other processes have allowed is asked for when it is needed; see askFleet.
func (c *Crawler) hearSeed(url string, hops uint8) {
	u, err := canonical.Parse(url)
	if err != nil {
		return // it was one where it came from
	}
	if hops == 0 {
		c.named.trust(u)
	}
	c.scope.AddSeed(u)
}
