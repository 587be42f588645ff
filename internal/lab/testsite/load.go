package testsite

import (
	"cmp"
	"math"
	"net/http"
	"time"

	"github.com/treadlight/crawl/internal/clock"
)

// work is a host's load: a queue of one worker, and a bound of open requests beyond which
// answers take longer. Its gate guards it.
type work struct {
	service time.Duration // mean, of one request; zero: no queue
	longest time.Duration // wait
	workers int           // zero: no bound
	seed    uint64

	free clock.Instant // when the worker is done with all admitted requests
	n    int           // admitted so far
}

func newWork(cfg Load, seed uint64) work {
	// By default the latency tells a client of the load: most wait no longer for a page.
	w := work{longest: cmp.Or(cfg.MaxWait, 30*time.Second), workers: cfg.Workers, seed: seed}
	if cfg.Rate > 0 {
		w.service = time.Duration(math.Round(float64(time.Second) / cfg.Rate))
	}
	return w
}

func (w *work) ready(now clock.Instant) clock.Instant {
	if w.service == 0 {
		return now
	}
	return max(now, w.free.Add(-w.longest))
}

// take queues a request and returns how long it takes until the worker is done with it, by Lindley's
// recursion (1952).
func (w *work) take(now clock.Instant, speed float64) time.Duration {
	if w.service == 0 {
		return 0
	}
	d := newDraw(w.seed, streamLoad, w.n)
	w.n++
	// One draw in half a billion is beyond the cut.
	took := min(tailCut, -math.Log(d.unit())) * float64(w.service) / speed
	w.free = max(now, w.free).Add(time.Duration(took))
	return w.free.Sub(now)
}

func (w *work) stretch(open int) float64 {
	if w.workers == 0 || open <= w.workers {
		return 1
	}
	return float64(open) / float64(w.workers)
}

// bans shuts clients out as fail2ban does: after so many refusals within a time, for a time,
// and then without a memory of them. Its gate guards it.
type bans struct {
	within, term time.Duration
	refused      []clock.Instant // ring of the latest refusals, as many as cause a ban
	next, n      int             // of the ring: where the next goes, and how many there are
	until        clock.Instant   // end of the latest ban
	count        int64
}

func newBans(cfg Ban) bans {
	return bans{within: cmp.Or(cfg.Within, cfg.For), term: cfg.For, refused: make([]clock.Instant, cfg.After)}
}

func (b *bans) refuse(now clock.Instant) {
	if len(b.refused) == 0 {
		return
	}
	b.refused[b.next] = now
	b.next = (b.next + 1) % len(b.refused)
	b.n = min(b.n+1, len(b.refused))
	if b.n == len(b.refused) && now.Sub(b.refused[b.next]) <= b.within { // next is the oldest
		b.until, b.n, b.next = now.Add(b.term), 0, 0
		b.count++
	}
}

func (b *Ban) decision() decision {
	if b.Mode == modeDrop {
		return decision{act: actReset}
	}
	return decision{act: actStatus, status: cmp.Or(b.Status, http.StatusForbidden)}
}
