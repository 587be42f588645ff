package terminal

import (
	"fmt"
	"strings"

	"github.com/treadlight/crawl/cmd/crawl/internal/human"
)

// MaxBacklog is how many lines are kept while the live view has the screen: what somebody
// who comes back to it may want to read, and a few hundred kilobytes.
const MaxBacklog = 2000

// backlog is the last lines of the log. It is not safe for concurrent use.
type backlog struct {
	lines []string // a ring once there are maxBacklog
	next  int      // the oldest, then
	lost  int64    // lines that are there no more
}

// add takes whole lines.
func (b *backlog) add(text string) {
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if len(b.lines) < MaxBacklog {
			b.lines = append(b.lines, line)
			continue
		}
		b.lines[b.next] = line
		b.next = (b.next + 1) % MaxBacklog
		b.lost++
	}
}

// last is a copy of the last n lines, the oldest first.
func (b *backlog) last(n int) []string {
	size := len(b.lines)
	n = min(n, size)
	lines := make([]string, n)
	for i := range lines {
		lines[i] = b.lines[(b.next+size-n+i)%size]
	}
	return lines
}

// String is all lines as they would have been printed, and how many are missing.
func (b *backlog) String() string {
	if len(b.lines) == 0 {
		return ""
	}
	text := strings.Join(b.last(MaxBacklog), "\n") + "\n"
	if b.lost > 0 {
		text = fmt.Sprintf("(%s from before are not shown; --progress plain shows all as they come)\n", human.Plural(b.lost, "message")) + text
	}
	return text
}
