package fetch

import (
	"fmt"
	"net/http"
	"path"
	"strings"
)

// Filter says by their headers which good answers are worth their bodies. It does not
// change after NewFilter and is safe for concurrent use; a nil one wants everything.
//
// Only answers with a 2xx status are judged: what a redirect or an error is, its status
// says. An answer that does not name its media type is read, since its bytes decide then,
// and so is one that does not say how long it is.
type Filter struct {
	wanted, refused []string // patterns, in lower case
	larger          int64
}

// NewFilter makes a Filter. A media type must match one of types, if there are any without
// a "!" before them, and none of those with it; each is written type/subtype, and "*" in it
// stands for anything but a slash. A body must not be announced as longer than larger bytes,
// as it is sent; zero sets no bound. The error names what is no pattern.
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

// refuses is why the body of an answer is not wanted, or nil.
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

// matching is the first pattern that fits a media type; empty if none does.
func matching(patterns []string, media string) string {
	for _, p := range patterns {
		if ok, _ := path.Match(p, media); ok { // NewFilter has seen that it is a pattern
			return p
		}
	}
	return ""
}

// unread ends an answer whose body is not wanted. What is left of a connection that has
// only little of it to come can be used again.
func (c *Client) unread(x *exchange, hres *http.Response) {
	c.drain(x, hres, 0)
	_ = hres.Body.Close() // nothing of it was of use
}
