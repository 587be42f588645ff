package scope

import (
	"fmt"
	"regexp"

	"github.com/treadlight/crawl/internal/web/canonical"
)

// Code is a decision as a number. The zero Code is [In].
type Code uint8

// The codes. OtherHost, OtherDomain and OtherPrefix are in the order of their modes.
const (
	In               Code = iota
	OtherHost             // not a seed's host
	OtherDomain           // not in a seed's registrable domain
	OtherPrefix           // not below a seed's path
	TooDeep               // more links away than MaxDepth
	TooManyRedirects      // more redirects in a row than MaxRedirects
	Excluded              // an Exclude pattern matches
	NotIncluded           // no Include pattern matches
	NoResources           // a resource, and only pages were asked for
	NumCodes              // the number of codes
)

var codeNames = [NumCodes]string{
	"in", "other_host", "other_domain", "other_prefix", "too_deep", "too_many_redirects",
	"excluded", "not_included", "no_resources",
}

// String is the name that metrics and records carry.
func (c Code) String() string {
	if c < NumCodes {
		return codeNames[c]
	}
	return fmt.Sprintf("code(%d)", uint8(c))
}

// MarshalText writes the name, so that JSON shows it.
func (c Code) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// Decision is whether a URL is in scope, and why.
type Decision struct {
	In   bool
	Code Code

	scope            *Scope
	url              canonical.URL
	depth, redirects int
	by               *regexp.Regexp // the Exclude pattern that matched; nil if none did
}

// Reason is the decision in words, such as "depth 6 > 5".
func (v Decision) Reason() string {
	switch v.Code {
	case In:
		return "in scope"
	case OtherHost:
		return fmt.Sprintf("host %s is not a seed host", v.url.Host())
	case OtherDomain:
		return fmt.Sprintf("domain %s is not a seed's domain", domainOf(v.url.Hostname()))
	case OtherPrefix:
		return fmt.Sprintf("%s is not below a seed's path", v.url)
	case TooDeep:
		return fmt.Sprintf("depth %d > %d", v.depth, v.scope.cfg.MaxDepth)
	case TooManyRedirects:
		return fmt.Sprintf("redirect %d > %d", v.redirects, v.scope.cfg.MaxRedirects)
	case Excluded:
		return fmt.Sprintf("excluded by /%s/", v.by)
	case NotIncluded:
		return "matches no include pattern"
	case NoResources:
		return "resources are not asked for"
	}
	return v.Code.String()
}

// String is Reason.
func (v Decision) String() string { return v.Reason() }
