package job

import (
	"fmt"
	"strings"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/cmd/crawl/internal/exit"
	"github.com/treadlight/crawl/internal/pipeline"
)

// ended is the error of a crawl that ended without one: the exit code of its end.
func (j *Job) ended(final *crawl.Snapshot) error {
	switch {
	case final.State == pipeline.EndInterrupted:
		return &exit.Error{Code: exit.CodeInterrupted}
	case final.State == pipeline.EndLimit && !enoughPages(final.State, final.Reason):
		return &exit.Error{Code: exit.CodeLimit}
	case j.obtained(final):
		return nil
	}
	return fmt.Errorf("%w%s", exit.ErrNothing, j.out.failures())
}

// enoughPages reports whether a crawl ended with as many pages as it was to have.
func enoughPages(end pipeline.End, reason string) bool {
	return end == pipeline.EndLimit && strings.HasPrefix(reason, "max_pages ")
}

// obtained reports whether a crawl, with its earlier runs, has a page, or one that the
// settings kept out. A process of several need not have any, nor need a round in which nothing
// was due.
func (j *Job) obtained(s *crawl.Snapshot) bool {
	if s.Pages > 0 || j.out.good || j.Settings.Fleet.Shared() {
		return true
	}
	if !j.Resumed {
		return false
	}
	_, before := j.state.Left()
	return j.state.Obtained() || before == 0 && s.Records == 0
}

// cutCode is the exit code of a crawl that is cut off in this state.
func cutCode(end pipeline.End, forced bool) int {
	switch {
	case forced:
		return exit.CodeForced
	case end == pipeline.EndLimit:
		return exit.CodeLimit
	}
	return exit.CodeInterrupted
}
