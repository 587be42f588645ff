package frontier

import (
	"math"
	"time"

	"github.com/treadlight/crawl/internal/ratelimit/outcome"
)

// A 403 says "never" of one page and "later" of the next: firewalls and modules give it to
// whoever asks too fast, with the very words that keep a private page. A URL alone cannot
// tell which; a host can. What met a 403 is asked for again when the host has served others
// meanwhile, or there are none. If it is served then, the host's 403 means later. If a few
// times it is not, and never once is, it means never, and the next one is the last word on
// its URL: what a host keeps private costs a few requests more. Only what comes in the midst of
// willing answers counts, as who is too fast for a host gets refusals close together.

// Forbids is what a host means by a 403, as far as is known.
type Forbids uint8

// The meanings.
const (
	ForbidsAll     Forbids = iota // whoever comes: nothing was ever served
	ForbidsUnknown                // one or the other
	ForbidsPages                  // never: what met one met one again
	ForbidsForNow                 // later: what met one was served
)

const (
	// neverAfter is how many further 403, and nothing served after one, mean never.
	neverAfter = 4
	// calmAfter is how many willing answers in a row are calm.
	calmAfter = 3
	// hurryAfter is how many show that the host does not count what it is asked, or has begun
	// to count anew: then there is no pause to wait for.
	hurryAfter = 100
)

// calm reports whether the host was willing of late.
func (h *host) calm() bool { return h.bad != nil && h.bad.willing >= calmAfter }

// due reports whether the first of those that met a "not now" may be asked for again. The pause
// after a 403 is for hosts that count seconds.
func (b *bad) due(now time.Time) bool {
	return b.shy.isDue(now) || len(b.shy) > 0 && b.shy[0].Forbidden > 0 && b.willing >= hurryAfter
}

// fit reports whether it is the moment to ask again for a URL that was refused while there
// are others. What met a 403 waits for a calm, in which another one says something. But who is
// too fast may wait long for that: so every now and then one goes at whatever moment.
func (h *host) fit(it *Item) bool {
	if it.Forbidden == 0 || h.calm() {
		return !h.failing()
	}
	return h.bad.again < neverAfter && int(h.seq-h.bad.scouted) >= h.bad.strikeAfter
}

// forbids is what the host means by a 403.
func (h *host) forbids() Forbids {
	switch {
	case h.served == 0:
		return ForbidsAll
	case h.bad == nil:
		return ForbidsUnknown
	case h.bad.lifted:
		return ForbidsForNow
	case h.bad.again >= neverAfter && h.bad.willing > 0:
		return ForbidsPages
	}
	return ForbidsUnknown
}

// Forbade takes in that the host answered a lease with a 403 while it did not refuse
// altogether. It is said before the lease ends.
func (f *Frontier) Forbade(l *Lease) {
	b := l.host.record()
	if l.Forbidden > 0 {
		b.scouted = l.seq
	}
	switch {
	case l.Forbidden == 0:
		l.Forbidden = 1
	case l.host.calm():
		l.Forbidden = min(l.Forbidden+1, math.MaxUint8)
		b.again = min(b.again+1, neverAfter)
	}
	b.willing = 0
}

// Forbidden queues the URL of a lease again that met a 403, not before an instant, or until the
// host has served many others in a row. No try is spent, and other URLs of the host go first.
func (f *Frontier) Forbidden(now time.Time, l *Lease, notBefore time.Time) {
	h := l.host
	b := h.record()
	trial, failedAt := b.suspect, h.failedAt
	it := f.again(now, l)
	b.trouble = outcome.ClientError
	// A 403 of which nobody knows what it means is no witness against the host: what is sent
	// next will be. Where it means later, or the host refuses altogether, it is one.
	if trial != nil && trial.failedAt == failedAt && l.Forbidden > 0 && h.forbids() != ForbidsForNow {
		trial.failedAt = h.failedAt
	}
	f.refusedAgain(h, it, false, now, notBefore)
}
