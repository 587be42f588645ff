package pipeline

import (
	"net/http"

	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/frontier/version"
	"github.com/treadlight/crawl/record"
)

// A later round of a crawl requests pages only if they have changed, by the validators that the host gave for the known
// version (RFC 9110, section 13), and says of each page whether it has changed.

// classUnasked is the error class of a 304 response to a request without a condition.
const classUnasked = "unasked_304"

// condition returns the header fields by which the host sends a page only if it differs from the known version.
func (c *Config) condition(l *frontier.Lease) http.Header {
	if c.Unconditional {
		return nil
	}
	return version.Condition(l.Before)
}

// refusesCondition reports whether a host answered the condition with 412, which it must not. It then drops the
// validators of the lease, so that the page is requested once more without a condition.
func (t *try) refusesCondition() bool {
	f, l := t.f, t.f.lease
	if f.resp == nil || f.resp.Status != http.StatusPreconditionFailed || t.p.cfg.condition(l) == nil {
		return false
	}
	l.Before = version.Unvalidated(l.Before)
	return true
}

func (w *processor) notModified(r *result, f *fetched) {
	if w.p.cfg.condition(f.lease) == nil && !f.resp.Conditional {
		r.rec.Error = &record.Error{Class: classUnasked, Message: "status 304 (not modified) to a request without a condition"}
		return
	}
	before := f.lease.Before
	if before == nil { // the program set the condition itself
		return
	}
	if d := before.Digest; d != (version.Digest{}) && !w.p.cfg.OmitDigest {
		r.rec.Digest = version.Text(d)
	}
	if before.Status/100 == 2 { // otherwise the visit before had no body either and refers to an earlier one
		r.rec.SameAs = before.At
	}
}

// compare notes which version of a URL this is, for a later round, and how it differs from what earlier rounds found.
func (w *processor) compare(r *result, f *fetched) {
	if w.p.cfg.State == nil {
		return
	}
	r.visit = new(frontier.Visit)
	if f.resp != nil && r.rec.Error == nil {
		version.Identify(r.visit, f.lease.Before, &version.Answer{
			Status: f.resp.Status, Header: f.resp.Header, Target: r.rec.RedirectTo, Truncated: f.resp.Truncated,
			Digest: func() version.Digest {
				if r.rec.Digest != "" {
					return version.Parse(r.rec.Digest)
				}
				return f.sum()
			},
		})
	}
	if w.p.cfg.Round > 1 {
		r.visit.Change = version.Change(r.visit, f.lease.Before, r.rec.Status)
		r.rec.Change = string(r.visit.Change)
	}
}

func (r *result) store() {
	if r.visit == nil {
		r.visit = new(frontier.Visit)
	}
	v := r.visit
	v.At, v.Status, v.Bytes, v.Class = r.rec.FetchedAt, r.rec.Status, r.rec.Bytes, r.rec.ErrorClass()
}
