package report

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/cmd/crawl/internal/exit"
	"github.com/treadlight/crawl/internal/pipeline"
)

// savedSnapshot is a snapshot as a stats file has it.
type savedSnapshot struct {
	crawl.Snapshot
	State *pipeline.End `json:"state"` // nil: the line is something else
}

// StatsTail is how much of the end of a stats file is read: a day of it is hundreds of
// megabytes, and a snapshot, with its 50 hosts at most, well below 100 KiB.
const StatsTail = 1 << 20

// LastSnapshot reads the last line of a stats file. A line cut off by a crash is passed
// over when there is a whole one before it.
func LastSnapshot(r io.Reader) (*crawl.Snapshot, error) {
	if seeker, ok := r.(io.Seeker); ok {
		// What cannot seek, a pipe, stays where it is and is read from its beginning;
		// what is shorter than the tail does too.
		_, _ = seeker.Seek(-StatsTail, io.SeekEnd)
	}
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, exit.Cause(err)
	}
	var problem error
	for line := range linesFromEnd(data) {
		var saved savedSnapshot
		err := json.Unmarshal(line, &saved)
		if err == nil && saved.State == nil {
			err = errors.New("it has no state")
		}
		if err != nil {
			problem = cmp.Or(problem, err) // of the newest line
			continue
		}
		saved.Snapshot.State = *saved.State
		return &saved.Snapshot, nil
	}
	if problem != nil {
		return nil, fmt.Errorf("not a stats file, as `crawl --stats FILE` writes it: %w", problem)
	}
	return nil, errors.New("the file is empty: it is what `crawl --stats FILE` writes")
}

// linesFromEnd yields the lines that are not empty, the last one first.
func linesFromEnd(data []byte) func(yield func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for len(data) > 0 {
			at := bytes.LastIndexByte(data, '\n')
			line := bytes.TrimSpace(data[at+1:])
			if len(line) > 0 && !yield(line) {
				return
			}
			data = data[:max(at, 0)]
		}
	}
}
