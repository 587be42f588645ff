// Package version says which version of a page a visit has found: by what validators the host names it (RFC 9110,
// section 13), by its digest, and how it differs from the version before.
package version

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
	"time"

	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
)

const (
	// longestETag bounds what the state and the memory hold of a page. Servers that hash whole pages in hex come to 130
	// bytes.
	longestETag = 256
	// digestPrefix names the hash of a digest in records.
	digestPrefix = "sha256:"
)

// Digest is the SHA-256 of a page. The zero Digest means unknown.
type Digest = [sha256.Size]byte

// Text returns a digest as records have it.
func Text(sum Digest) string {
	text := make([]byte, 0, len(digestPrefix)+2*sha256.Size)
	return string(hex.AppendEncode(append(text, digestPrefix...), sum[:]))
}

// Parse returns the digest that Text has written; zero for another text.
func Parse(text string) (sum Digest) {
	known, err := hex.DecodeString(strings.TrimPrefix(text, digestPrefix))
	if err == nil && len(known) == len(sum) {
		copy(sum[:], known)
	}
	return sum
}

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

// Validators returns the entity tag and the date of the version that the header of a response gives, as texts for
// [SetCondition].
func Validators(h http.Header) (tag, modified string) {
	tag, at := validators(h)
	if !at.IsZero() {
		modified = h.Get("Last-Modified") // as it came: some hosts compare texts
	}
	return tag, modified
}

// validators is Validators with the date as a time. The date may be in any of the three forms of HTTP. A date in another
// form is dropped, as a condition could not be made from it.
func validators(h http.Header) (tag string, modified time.Time) {
	if t, err := http.ParseTime(h.Get("Last-Modified")); err == nil {
		modified = t
	}
	return etag(h.Get("ETag")), modified
}

// Condition returns the header fields by which the host sends a page only if it differs from the known version. Nil
// means that no validator is known.
func Condition(before *frontier.Visit) http.Header {
	if before == nil {
		return nil
	}
	tag, modified := etag(before.ETag), "" // the state may have been edited
	if t := before.LastModified; !t.IsZero() {
		modified = t.UTC().Format(http.TimeFormat)
	}
	if tag+modified == "" {
		return nil
	}
	h := make(http.Header, 2)
	SetCondition(h, tag, modified)
	return h
}

// SetCondition adds to the header of a request the condition that the host has another version than that with these
// validators. An empty text means that the validator is not known.
func SetCondition(h http.Header, tag, modified string) {
	if tag != "" {
		h["If-None-Match"] = []string{tag}
	}
	if modified != "" {
		h["If-Modified-Since"] = []string{modified}
	}
}

// Unvalidated returns a visit without its validators.
func Unvalidated(before *frontier.Visit) *frontier.Visit {
	v := *before
	v.ETag, v.LastModified = "", time.Time{}
	return &v
}

// Answer is what a response says of the version of a page.
type Answer struct {
	Status    int
	Header    http.Header
	Target    string        // of a redirect
	Truncated bool          // only a part of the body was read
	Digest    func() Digest // returns that of the body
}

// Identify notes in a visit what distinguishes this version of a page: digest and validators. Before is the visit
// before; nil means that there was none.
func Identify(v, before *frontier.Visit, a *Answer) {
	switch {
	case a.Status == http.StatusNotModified && before == nil: // the program set the condition itself
	case a.Status == http.StatusNotModified:
		v.Digest = before.Digest
		v.ETag, v.LastModified = validators(a.Header)
		v.ETag = cmp.Or(v.ETag, before.ETag)
		if v.LastModified.IsZero() {
			v.LastModified = before.LastModified
		}
	case outcome.Of(a.Status, nil) == outcome.Redirect:
		v.Digest = sha256.Sum256([]byte(a.Target))
	case a.Status/100 == 2:
		v.Digest = a.Digest()
		if !a.Truncated { // otherwise a larger max_body could not fetch the rest, as the page would count as unchanged
			v.ETag, v.LastModified = validators(a.Header)
		}
	}
}

// Change returns how a page differs from what earlier rounds found. Failures and refusals tell nothing about the page,
// and neither does an earlier visit without a digest.
func Change(v, before *frontier.Visit, status int) frontier.Change {
	was := before != nil && before.Status/100 >= 2 && before.Status/100 <= 3
	unknown := Digest{}
	switch {
	case status == http.StatusNotFound || status == http.StatusGone:
		if was {
			return frontier.Gone
		}
		if before != nil && before.Status != 0 {
			return frontier.Unchanged
		}
		return ""
	case v.Digest == unknown:
		return ""
	case !was:
		return frontier.Appeared
	case before.Digest == unknown:
		return ""
	case before.Digest == v.Digest:
		return frontier.Unchanged
	}
	return frontier.Changed
}
