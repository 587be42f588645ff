package testsite

import (
	"net/http"
	"time"

	"github.com/treadlight/crawl/internal/clock"
)

// jail is who is banned, by the law of fail2ban: so many refusals within a time, then shut
// out for a time, and a clean record after it. Its gate guards it.
type jail struct {
	within, term time.Duration
	refused      []clock.Instant // ring of the latest refusals, as many as bring a ban
	next, n      int             // of the ring: where the next goes, and how many there are
	until        clock.Instant   // end of the latest ban
	bans         int64
}

func newJail(cfg Ban) jail {
	j := jail{within: cfg.Within, term: cfg.For}
	if j.within == 0 {
		j.within = cfg.For
	}
	if cfg.After > 0 {
		j.refused = make([]clock.Instant, cfg.After)
	}
	return j
}

// refuse notes a refusal, which may be one too many.
func (j *jail) refuse(now clock.Instant) {
	if len(j.refused) == 0 {
		return
	}
	j.refused[j.next] = now
	j.next = (j.next + 1) % len(j.refused)
	j.n = min(j.n+1, len(j.refused))
	// The ring is full: what is overwritten next is the oldest of as many as it takes.
	if j.n == len(j.refused) && now.Sub(j.refused[j.next]) <= j.within {
		j.until, j.n, j.next = now.Add(j.term), 0, 0
		j.bans++
	}
}

// verdict is what a banned client gets.
func (b *Ban) verdict() verdict {
	if b.Mode == modeDrop {
		return verdict{act: actReset}
	}
	status := b.Status
	if status == 0 {
		status = http.StatusForbidden
	}
	return verdict{act: actStatus, status: status}
}
