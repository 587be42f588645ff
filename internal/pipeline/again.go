package pipeline

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
	"time"

	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
	"github.com/treadlight/crawl/record"
)

// A later round of a crawl requests pages only if they have changed, by the validators that the host gave for the known
// version (RFC 9110, section 13), and says of each page whether it has changed.

const (
	// classUnasked is the error class of a 304 response to a request without a condition.
	classUnasked = "unasked_304"
	// longestETag bounds what the state and the memory hold of a page. Servers that hash whole pages in hex come to 130
	// bytes.
	longestETag = 256
	// digestPrefix names the hash of a digest in records.
	digestPrefix = "sha256:"
)

func digest(sum [sha256.Size]byte) string {
	text := make([]byte, 0, len(digestPrefix)+2*sha256.Size)
	return string(hex.AppendEncode(append(text, digestPrefix...), sum[:]))
}

var noDigest [sha256.Size]byte

// etag returns s if it is an entity tag that can be sent back, and otherwise an empty string. Text without quotes has a
// different meaning in a request: "*" stands for any version. Text other than visible ASCII does not pass every proxy.
func etag(s string) string {
	opaque, quoted := strings.CutPrefix(strings.TrimPrefix(s, "W/"), `"`)
	opaque, closed := strings.CutSuffix(opaque, `"`)
	if !quoted || !closed || len(s) > longestETag {
		return ""
	}
	for i := range len(opaque) {
		if c := opaque[i]; c <= ' ' || c >= 0x7f || c == '"' {
			return ""
		}
	}
	return s
}

// validators returns the entity tag and the date of the version that the header of a response gives. The date may be in
// any of the three forms of HTTP. A date in another form is dropped, as a condition could not be made from it.
func validators(h http.Header) (tag string, modified time.Time) {
	if t, err := http.ParseTime(h.Get("Last-Modified")); err == nil {
		modified = t
	}
	return etag(h.Get("ETag")), modified
}

// condition returns the header fields by which the host sends a page only if it differs from the known version. Nil
// means that no validator is known, or that none is used.
func (c *Config) condition(l *frontier.Lease) http.Header {
	if l.Before == nil || c.Unconditional {
		return nil
	}
	var h http.Header
	if tag := etag(l.Before.ETag); tag != "" { // the state may have been edited
		h = http.Header{"If-None-Match": {tag}}
	}
	if t := l.Before.LastModified; !t.IsZero() {
		if h == nil {
			h = make(http.Header, 1)
		}
		h["If-Modified-Since"] = []string{t.UTC().Format(http.TimeFormat)}
	}
	return h
}

// refusesCondition reports whether a host answered the condition with 412, which it must not. It then drops the
// validators of the lease, so that the page is requested once more without a condition.
func (t *try) refusesCondition() bool {
	f, l := t.f, t.f.lease
	if f.resp == nil || f.resp.Status != http.StatusPreconditionFailed || t.p.cfg.condition(l) == nil {
		return false
	}
	before := *l.Before
	before.ETag, before.LastModified = "", time.Time{}
	l.Before = &before
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
	if d := before.Digest; d != noDigest && !w.p.cfg.OmitDigest {
		r.rec.Digest = digest(d)
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
		r.identify(f)
	}
	if w.p.cfg.Round > 1 {
		r.visit.Change = change(f.lease.Before, r)
		r.rec.Change = string(r.visit.Change)
	}
}

// identify notes what distinguishes this version of a page: digest and validators. The record may have the hash of the
// body already.
func (r *result) identify(f *fetched) {
	v, resp := r.visit, f.resp
	switch {
	case resp.Status == http.StatusNotModified && r.lease.Before == nil: // the program set the condition itself
	case resp.Status == http.StatusNotModified:
		before := r.lease.Before
		v.Digest = before.Digest
		if v.ETag, v.LastModified = validators(resp.Header); v.ETag == "" {
			v.ETag = before.ETag
		}
		if v.LastModified.IsZero() {
			v.LastModified = before.LastModified
		}
	case outcome.Of(resp.Status, nil) == outcome.Redirect:
		v.Digest = sha256.Sum256([]byte(r.rec.RedirectTo))
	case resp.Status/100 == 2:
		if known, err := hex.DecodeString(strings.TrimPrefix(r.rec.Digest, digestPrefix)); err == nil && len(known) == len(v.Digest) {
			copy(v.Digest[:], known)
		} else {
			v.Digest = f.sum()
		}
		if !resp.Truncated { // otherwise a larger max_body could not fetch the rest, as the page would count as unchanged
			v.ETag, v.LastModified = validators(resp.Header)
		}
	}
}

// change returns how the page differs from what earlier rounds found. Failures and refusals tell nothing about the
// page, and neither does an earlier visit without a digest, as older versions stored it.
func change(before *frontier.Visit, r *result) frontier.Change {
	was := before != nil && before.Status/100 >= 2 && before.Status/100 <= 3
	switch status := r.rec.Status; {
	case status == http.StatusNotFound || status == http.StatusGone:
		if was {
			return frontier.Gone
		}
		if before != nil && before.Status != 0 {
			return frontier.Unchanged
		}
		return ""
	case r.visit.Digest == noDigest:
		return ""
	case !was:
		return frontier.Appeared
	case before.Digest == noDigest:
		return ""
	case before.Digest == r.visit.Digest:
		return frontier.Unchanged
	}
	return frontier.Changed
}

func (r *result) store() {
	if r.visit == nil {
		r.visit = new(frontier.Visit)
	}
	v := r.visit
	v.At, v.Status, v.Bytes, v.Class = r.rec.FetchedAt, r.rec.Status, r.rec.Bytes, r.rec.ErrorClass()
}
