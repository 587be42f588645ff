package frontier

import (
	"cmp"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit"
)

// Peers are the processes that work on a crawl together, this one among them. They count its pages together, and decide
// together that only blocked hosts remain. A process that works alone uses [Alone].
type Peers interface {
	// Seeded says that this process adds no more seeds.
	Seeded()
	// Pages returns how many pages this process may lease in all, given how many it has leased, and whether that number
	// is final.
	Pages(leased int) (most int, last bool)
	// Idles passes on how idle this process is; a zero Idleness means that it has work.
	Idles(Idleness)
	// Noted passes on whether a host has responded to any request, one for robots.txt included; whether a host has
	// responded to the request of a URL; and why the first URL was given up whose robots.txt could not be fetched. The
	// other processes know it before a URL that is acknowledged afterwards counts as done.
	Noted(answered, visited bool, unruled string)
	// Verdict returns why only blocked hosts remain to all processes. Empty means that other hosts remain.
	Verdict() string
	// Unvisited returns why no process could request any URL. It is valid once the crawl was found to be over. Empty
	// means that one was requested, or that there was none.
	Unvisited() string
	// Changed returns a channel that receives when Pages or Verdict may have changed.
	Changed() <-chan struct{}
}

// Alone is the Peers of a process that works on a crawl alone. Its decisions are those of the one process.
type Alone struct {
	Clock    clock.Clock
	MaxPages func() int // returns the bound of the settings; zero means none

	idleness Idleness // what it was told last, as are the others
	visited  bool
	unruled  string
}

// Seeded implements [Peers], as do the other methods.
func (*Alone) Seeded() {}

// Changed returns nil: what Alone decides by is what it was told.
func (*Alone) Changed() <-chan struct{} { return nil }

// Idles notes how idle the process is.
func (a *Alone) Idles(i Idleness) { a.idleness = i }

// Noted notes whether a host has responded, and why the first URL was given up.
func (a *Alone) Noted(_, visited bool, unruled string) { a.visited, a.unruled = visited, unruled }

// Pages returns the bound of the settings.
func (a *Alone) Pages(int) (most int, last bool) { return cmp.Or(a.MaxPages(), math.MaxInt), true }

// Verdict returns the reason to end the crawl if the time for hosts that refuse is over, or will be before the first of
// them may get a request. If no host says when that is, it must be over.
func (a *Alone) Verdict() string {
	i, now := &a.idleness, a.Clock.Now()
	limit := i.Since.Add(i.Patience)
	late := now.After(limit) || i.Ordered && i.Until.After(limit)
	if i.Excluded || i.Until.IsZero() {
		late = !now.Before(limit)
	}
	if i.Whole && late {
		return i.Reason
	}
	return ""
}

// Unvisited returns why no URL could be requested, if some host has responded.
func (a *Alone) Unvisited() string {
	if a.visited {
		return ""
	}
	return a.unruled
}

// AllExcluded begins the reason of an end at which all hosts with work are excluded. Names of hosts follow it.
const AllExcluded = "only hosts are left that the operator has blocked"

const maxNamed = 3 // hosts that a reason names

// Refusal says in words which hosts refuse, and until when. For the host with the most URLs left it names the last
// responses, if they were the reason that it is blocked.
func (f *Frontier) Refusal(b *Blockage, now time.Time) string {
	if b.Excluded {
		return AllExcluded + f.namesOfExcluded(now)
	}
	trouble := ""
	for _, h := range f.Hosts(now, 1) {
		if h.Blocked && h.Reason == ratelimit.LimitQuota.String() {
			trouble = fmt.Sprintf("the quota of %s is used up, %d URLs of it are left; ", h.Host, h.Queued)
		} else if h.Failures > 1 {
			trouble = fmt.Sprintf("%s failed %d times in a row (%s), %d URLs of it are left; ",
				h.Host, h.Failures, h.Trouble, h.Queued)
		}
	}
	return fmt.Sprintf("%sthe first may be asked again at %s", trouble, moment(now, b.Until))
}

// namesOfExcluded returns a colon and the excluded hosts with the most URLs left; "" if none is in memory.
func (f *Frontier) namesOfExcluded(now time.Time) string {
	var names []string
	for _, h := range f.Hosts(now, maxNamed+1) {
		if h.Excluded && h.Queued > 0 {
			names = append(names, h.Host)
		}
	}
	if len(names) == 0 {
		return ""
	}
	if len(names) > maxNamed {
		names[maxNamed] = "…"
	}
	return ": " + strings.Join(names, ", ")
}

// moment formats an instant for people: the time of day, preceded by the date if that is not today. A quota may last
// for weeks.
func moment(now, t time.Time) string {
	if now = now.In(t.Location()); t.Year() == now.Year() && t.YearDay() == now.YearDay() {
		return t.Format(time.TimeOnly)
	}
	return t.Format(time.DateTime)
}
