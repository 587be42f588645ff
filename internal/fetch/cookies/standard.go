package cookies

import (
	"net/http"
	"net/url"
	"strings"
)

// Keeper stores cookies: a [*Jar], or another jar by [Standard]. It is safe for concurrent use.
type Keeper interface {
	// Set stores the cookies of the Set-Cookie lines of a response from o.
	Set(o Origin, lines []string)
	// Header returns the value of the Cookie field of a request to o. Empty means that there are no cookies.
	Header(o Origin) string
	// Lines returns the cookies of such a request as responses set them, with their attributes. Nil means that there
	// are none, or that the attributes are not known.
	Lines(o Origin) []string
}

var (
	_ Keeper = (*Jar)(nil)
	_ Keeper = Standard{}
)

// Standard adapts a jar of net/http.
type Standard struct{ Jar http.CookieJar }

// Set stores the cookies that net/http can parse.
func (s Standard) Set(o Origin, lines []string) {
	if list := (&http.Response{Header: http.Header{"Set-Cookie": lines}}).Cookies(); len(list) > 0 {
		s.Jar.SetCookies(o.url(), list)
	}
}

// Header returns the cookies of the jar for o, in its order.
func (s Standard) Header(o Origin) string {
	var b strings.Builder
	for i, c := range s.Jar.Cookies(o.url()) {
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(c.Name + "=")
		if c.Quoted {
			b.WriteString(`"` + c.Value + `"`)
		} else {
			b.WriteString(c.Value)
		}
	}
	return b.String()
}

// Lines returns nil, because such a jar does not say which cookies are hidden from scripts.
func (s Standard) Lines(Origin) []string { return nil }

// Has reports whether a request to o has a cookie of that name.
func Has(k Keeper, o Origin, name string) bool {
	for pair := range strings.SplitSeq(k.Header(o), "; ") {
		if n, _, _ := strings.Cut(pair, "="); n == name {
			return true
		}
	}
	return false
}

func (o *Origin) url() *url.URL {
	u := &url.URL{Scheme: "http", Host: o.Host, Path: o.Path}
	if o.TLS {
		u.Scheme = "https"
	}
	if strings.Contains(o.Host, ":") {
		u.Host = "[" + o.Host + "]"
	}
	return u
}
