package pipeline

import (
	"time"

	"github.com/treadlight/crawl/internal/pipeline/frontier"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
)

// proofs is how many 403 of a URL, with pauses between them, are the last word on it as
// long as it is not known what its host means by one.
const proofs = 3

// forbiddenPause is the least time between the first two 403 of a URL, in which a host that
// counts seconds has begun another; it doubles with each. A host that serves many others in a
// row meanwhile shows that it does not, and is not waited for.
const forbiddenPause = time.Second

// forbidden reports a 403 for a URL of the frontier. That of a robots.txt means that there
// are no rules (RFC 9309, section 2.3.1.3).
func forbidden(f *fetched) bool {
	return f.resp != nil && outcome.Forbidden(f.resp.Status) && f.lease.Kind != frontier.Robots
}

// mayMeanLater reports whether a 403 is no last word on the URL. locked says that the host
// locks us out: then nothing is known of the URL, but one that is alone with such a host
// must come to an end too.
func (p *Pipeline) mayMeanLater(l *frontier.Lease, locked bool) bool {
	switch {
	case l.Forbids == frontier.ForbidsAll && (!locked || !l.Met):
		return false
	case locked:
		return l.Returns < freePasses
	case l.Forbids == frontier.ForbidsForNow:
		return int(l.Forbidden) <= p.cfg.Retries && int(l.Returns) < p.cfg.Retries+freePasses
	}
	return l.Forbids == frontier.ForbidsUnknown && l.Forbidden+1 < proofs && l.Returns < freePasses
}

// lifted reports an answer to a URL that had met a 403 before: so that meant "later", and the
// limiter is to know.
func lifted(f *fetched) bool {
	return f.lease.Forbidden > 0 && f.resp != nil && f.resp.Status/100 <= 3
}
