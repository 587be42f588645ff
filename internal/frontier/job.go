package frontier

import (
	"errors"
	"fmt"
	"strings"
)

var (
	// ErrNoJob is that there is no such job, or none any more.
	ErrNoJob = errors.New("there is no such job: it was never begun, or was purged, or the server has lost it")
	// ErrComplete is that a job has nothing left to do.
	ErrComplete = errors.New("all of its URLs are done")
)

// Diff is a term on which a process and its job do not agree. Empty: one of them has none.
type Diff struct{ Term, Job, Here string }

// TermsError is the error of a process whose terms are not the job's.
type TermsError struct {
	Job   string
	Diffs []Diff // by their terms
}

func (e *TermsError) Error() string {
	parts := make([]string, len(e.Diffs))
	for i, d := range e.Diffs {
		parts[i] = fmt.Sprintf("%s is %q there and %q here", d.Term, d.Job, d.Here)
	}
	return fmt.Sprintf("job %s is another crawl: %s: give the same, or name another job", e.Job, strings.Join(parts, ", "))
}

// JobFigures are those of a process and of its job, for the console.
type JobFigures struct {
	Job    string `json:"job"`
	Worker string `json:"worker"`
	State  string `json:"state"` // "running", "paused" or "draining"

	Hosts   int   `json:"hosts"`   // that this process has
	Loaded  int   `json:"loaded"`  // URLs that it was handed and are not done
	Pending int64 `json:"pending"` // operations not sent yet

	SilentSeconds float64 `json:"silent_seconds"` // since Redis was heard last
	LeaseSeconds  float64 `json:"lease_seconds"`
	TripSeconds   float64 `json:"trip_seconds"` // the last batch

	Commands int64 `json:"commands"`
	Repeated int64 `json:"repeated"` // commands sent again
	Acquired int64 `json:"acquired"` // hosts
	Given    int64 `json:"given"`    // hosts
	Lost     int64 `json:"lost"`     // hosts
	Dropped  int64 `json:"dropped"`  // URLs for which Redis had no memory
	Full     bool  `json:"full"`     // it has none

	// AgeSeconds is how old the figures of all processes are, which follow. Those of partitions are of slightly
	// different moments.
	AgeSeconds float64 `json:"age_seconds"`
	Known      int64   `json:"known"`  // URLs ever added
	Done       int64   `json:"done"`   // of them
	Queued     int64   `json:"queued"` // URLs that are not done
	Leased     int64   `json:"leased"` // of these, those that processes were handed, as they told last
	Processes  int     `json:"processes"`
}
