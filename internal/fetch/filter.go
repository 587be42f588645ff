package fetch

import (
	"fmt"
	"net/http"
	"path"
	"strings"
)

// Filter decides by the header of which 2xx responses the body is read. It is immutable and safe for concurrent use.
// Nil accepts all.
//
// Responses with another status are not checked. One without a media type, or without a length, passes the check for
// that.
type Filter struct {
	wanted, refused []string // patterns, in lower case
	larger          int64
}

// NewFilter returns a Filter. If types has patterns without "!", a media type must match one of them. It must match
// none with "!". "*" in a type/subtype matches anything but a slash. An announced body must not be longer than larger
// bytes, encoded; zero means no bound. The error names an invalid pattern.
func NewFilter(types []string, larger int64) (*Filter, error) {
	f := &Filter{larger: larger}
	if larger < 0 {
		return nil, fmt.Errorf("a largest size of %d bytes: use a positive one, or zero for any", larger)
	}
	for _, text := range types {
		pattern, refuse := strings.CutPrefix(strings.ToLower(strings.TrimSpace(text)), "!")
		if _, err := path.Match(pattern, ""); err != nil || strings.Count(pattern, "/") != 1 || strings.ContainsAny(pattern, " ;,") {
			return nil, fmt.Errorf("%q is no pattern of media types: write type/subtype, such as text/html or image/*, and ! before it to refuse", text)
		}
		if refuse {
			f.refused = append(f.refused, pattern)
		} else {
			f.wanted = append(f.wanted, pattern)
		}
	}
	return f, nil
}

// refuses returns why the body of a response is not wanted, or nil.
func (f *Filter) refuses(res *Response, length int64) error {
	switch {
	case f == nil || res.Status/100 != 2:
		return nil
	case f.larger > 0 && length > f.larger:
		return fmt.Errorf("a body of %d bytes, more than %d are not wanted", length, f.larger)
	case res.ContentType == "":
		return nil
	}
	if p := matching(f.refused, res.ContentType); p != "" {
		return fmt.Errorf("media type %.80q is refused by %q", res.ContentType, "!"+p)
	}
	if len(f.wanted) > 0 && matching(f.wanted, res.ContentType) == "" {
		return fmt.Errorf("media type %.80q is none of %s", res.ContentType, strings.Join(f.wanted, ", "))
	}
	return nil
}

// matching returns the first pattern that matches a media type, or an empty string.
func matching(patterns []string, media string) string {
	for _, p := range patterns {
		if ok, _ := path.Match(p, media); ok { // NewFilter has checked the pattern
			return p
		}
	}
	return ""
}

// unread ends a response whose body is not wanted. It keeps the connection if little is left to read.
func (c *Client) unread(x *exchange, hres *http.Response) {
	c.drain(x, hres, 0)
	_ = hres.Body.Close() // nothing of it was of use
}
