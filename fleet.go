package crawl

import (
	"context"
	"log/slog"

	"github.com/treadlight/crawl/internal/assembly"
)

// FleetError is trouble with a crawl of several processes or with its Redis: Job names the job, and
// Err says what is wrong; it is [ErrNoJob] or [ErrJobComplete], among others.
type FleetError = assembly.FleetError

// ErrNoJob is what a [FleetError] is if the job to join is not there.
var ErrNoJob = assembly.ErrNoJob

// ErrJobComplete is what a [FleetError] is if the job to join has nothing left to do.
var ErrJobComplete = assembly.ErrJobComplete

// AwaitJob waits until the job of the settings (fleet.job) has URLs to visit: for a process
// that brings no seeds, with [Config.Join], and may be begun before the one that does. It
// tells log, which may be nil, what it waits for. The error is that of ctx, or a
// [*FleetError]: [ErrJobComplete], or trouble with the Redis.
func AwaitJob(ctx context.Context, settings *Settings, log *slog.Logger) error {
	return assembly.AwaitJob(ctx, settings, log)
}
