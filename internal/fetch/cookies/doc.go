// Package cookies stores the cookies of a crawl by the rules of RFC 6265, within bounds.
//
// A [Jar] takes the cookies that responses set and those that a user exports from a browser (cookies.txt), and returns
// the cookies that a request sends. A cookie is sent to the host that set it, or also to the names below its domain if
// that is no public suffix. A secure cookie is neither sent nor accepted over plain HTTP, and the name prefixes __Host-
// and __Secure- are enforced (RFC 6265bis section 4.1.3).
//
// Unlike the jar of net/http, it bounds the cookies of each site, in number and in bytes, and the number of sites. It
// drops the oldest cookie of a site, and the site that was used least recently. It is safe for concurrent use, and is
// in memory only.
package cookies
