package frontier

import (
	"errors"
	"fmt"
	"strings"
)

var (
	// ErrNoJob means that the job does not exist, or does not exist any more.
	ErrNoJob = errors.New("there is no such job: it was never begun, or was purged, or the server has lost it")
	// ErrComplete means that the job has nothing left to do.
	ErrComplete = errors.New("all of its URLs are done")
)

// Diff is a term on which a process and its job disagree: its value in the job and here. An empty value means that this
// side does not have the term.
type Diff struct{ Term, Job, Here string }

// TermsError is the error of a process whose terms differ from those of its job.
type TermsError struct {
	Job   string
	Diffs []Diff // ordered by term
}

func (e *TermsError) Error() string {
	parts := make([]string, len(e.Diffs))
	for i, d := range e.Diffs {
		parts[i] = fmt.Sprintf("%s is %q there and %q here", d.Term, d.Job, d.Here)
	}
	return fmt.Sprintf("job %s is another crawl: %s: give the same, or name another job", e.Job, strings.Join(parts, ", "))
}

// JobFigures are figures of a process and of its job, for the console.
type JobFigures struct {
	Job    string `json:"job"`
	Worker string `json:"worker"`
	State  string `json:"state"` // "running", "paused" or "draining"

	Hosts   int   `json:"hosts"`   // hosts that this process holds
	Loaded  int   `json:"loaded"`  // URLs that this process was handed and that are not done
	Pending int64 `json:"pending"` // operations not sent yet

	SilentSeconds float64 `json:"silent_seconds"` // since the last reply of Redis
	LeaseSeconds  float64 `json:"lease_seconds"`
	TripSeconds   float64 `json:"trip_seconds"` // round trip of the last batch

	Commands int64 `json:"commands"`
	Repeated int64 `json:"repeated"` // commands sent again
	Acquired int64 `json:"acquired"` // hosts that this process acquired
	Given    int64 `json:"given"`    // hosts that it gave back
	Lost     int64 `json:"lost"`     // hosts that it lost
	Dropped  int64 `json:"dropped"`  // URLs dropped because Redis was out of memory
	Full     bool  `json:"full"`     // whether Redis is out of memory

	// AgeSeconds is the age of the figures that follow, which are those of all processes. The figures of different
	// partitions are of slightly different moments.
	AgeSeconds float64 `json:"age_seconds"`
	Known      int64   `json:"known"`  // URLs ever added
	Done       int64   `json:"done"`   // of them, the URLs that are done
	Queued     int64   `json:"queued"` // URLs that are not done
	Leased     int64   `json:"leased"` // of these, the URLs that processes were handed, by their last reports
	Processes  int     `json:"processes"`
}
