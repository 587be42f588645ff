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

// Fleets makes this process's part in a fleet, and makes the budgets of the limiter those of the whole fleet. Package
// fleet registers it.
var Fleets = backend.New[func(*Crawler, *ratelimit.Config) (Fleet, error)]("a crawl that several processes share", "redis")

// Fleet is this process's part in a crawl of several processes.
type Fleet interface {
	// Open makes the job of the settings, or joins it. The crawl must have a limiter and a scope.
	Open() error
	// Join configures the pipeline to work on the job.
	Join(*pipeline.Config)
	// Run carries out what operators want from all processes of the job, until ctx ends.
	Run(ctx context.Context)
	// Unanswered reports whether no host has answered any process, as of the last heartbeat.
	Unanswered() bool
	// Figures returns the figures of the job without a request.
	Figures() frontier.JobFigures
	// Opening returns what the job has stored about a host and port that users named, or an empty string. SetOpening
	// stores it, unless another process has done so before.
	Opening(ctx context.Context, host string) (addrs string, err error)
	SetOpening(ctx context.Context, host, addrs string) error
	// End gives everything back at the end of a run, and returns the error to end with: an earlier failure of the job,
	// else the given error of the run, else that of closing.
	End(error) error
}

// FleetError is an error of a crawl of several processes or of its Redis.
type FleetError struct {
	Job string
	Err error // says what is wrong; [ErrNoJob] if the job does not exist
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

// ErrNoJob and ErrJobComplete are in a [FleetError] if the job to join does not exist, or has nothing left to do.
var (
	ErrNoJob       = frontier.ErrNoJob
	ErrJobComplete = frontier.ErrComplete
)

var flagsOfSet = map[string]string{"max_pages": "--max-pages N", "max_time": "--max-time TIME"}

// fleetTerms names each setting that has another value in the job, and says how to get the same.
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

// hearSeed admits a seed of another process to the scope. It allows no private address, as a client of the console may
// have added the seed. Which addresses the users of other processes have allowed is requested when needed; see
// askFleet.
func (c *Crawler) hearSeed(url string, hops uint8) {
	u, err := canonical.Parse(url)
	if err != nil {
		return // another version may have accepted it
	}
	if hops == 0 {
		c.named.trust(u)
	}
	c.scope.AddSeed(u)
}
