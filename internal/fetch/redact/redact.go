// Package redact removes secrets from text for people: logs, errors, records.
//
// A text can contain a secret in four ways: as the value of a header (Authorization, Cookie), as the user information
// of a URL, as the value of a query parameter (?access_token=...), and in an error that quotes any of them.
// [Redactor.Header], [Redactor.URL] and [Redactor.Text] mask secrets where their place shows what they are.
// [Redactor.Secrets] lists those of a request, so that Text also finds them where nothing around them shows what they
// are.
//
// The rules match broadly on purpose: a masked harmless value costs a reader little. Paths are not masked, because a
// secret in a path looks like the name of a page.
//
// All functions are pure and safe for concurrent use.
package redact

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Mask replaces a secret.
const Mask = "xxx"

// maxURL bounds a URL in a log line, in bytes. Records have the whole URL.
const maxURL = 500

// Redactor masks secrets. It is made by [New] and safe for concurrent use. Nil and the zero Redactor have only the
// rules of the package.
type Redactor struct{ headers []string } // in lower case

// New returns a Redactor that also masks the values of these headers, whose names are case-insensitive.
func New(headers ...string) *Redactor {
	r := new(Redactor)
	for _, name := range headers {
		r.headers = append(r.headers, strings.ToLower(strings.TrimSpace(name)))
	}
	return r
}

// URL returns rawURL without user information and fragment, with secret query parameters masked, and cut to the length
// of a log line.
func (r *Redactor) URL(rawURL string) string {
	shown, _, _ := strings.Cut(rawURL, "#")
	if shown = r.word(shown); len(shown) > maxURL {
		shown = shown[:maxURL] + "..."
	}
	return shown
}

// URL is [Redactor.URL] by the rules of the package.
func URL(rawURL string) string { return (*Redactor)(nil).URL(rawURL) }

func withoutUser(rest string) string {
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	if at := strings.LastIndexByte(rest[:end], '@'); at >= 0 {
		return rest[at+1:]
	}
	return rest
}

// secretPair reports whether the key names a secret, or the value is a URL or query with a secret in it.
func (r *Redactor) secretPair(key, value string) bool {
	if secretParam(key) {
		return true
	}
	// Twice, because a URL in a query may be escaped twice.
	for range 2 {
		plain, err := url.QueryUnescape(value)
		if err != nil || plain == value {
			break
		}
		if value = plain; r.Text(value) != value {
			return true
		}
	}
	return strings.Contains(value, "=") && r.Text("?"+value) != "?"+value
}

func secretParam(key string) bool {
	if plain, err := url.QueryUnescape(key); err == nil {
		key = plain
	}
	return looksSecret(strings.ToLower(key))
}

var (
	secretParts = []string{"token", "secret", "pass", "pwd", "auth", "session", "credential", "signature"}
	secretEnds  = []string{"key", "sig", "sid", "code"}
)

func looksSecret(name string) bool {
	return slices.ContainsFunc(secretParts, func(part string) bool { return strings.Contains(name, part) }) ||
		slices.ContainsFunc(secretEnds, func(end string) bool { return strings.HasSuffix(name, end) })
}

// SecretHeader reports whether this header is masked: Authorization, Proxy-Authorization, Cookie, Set-Cookie,
// X-Api-Key, secret-looking names, and those given to New.
func (r *Redactor) SecretHeader(name string) bool {
	name = strings.ToLower(name)
	return strings.Contains(name, "cookie") || looksSecret(name) || r != nil && slices.Contains(r.headers, name)
}

// Header returns a copy of h with the values of secret headers masked. In the values of other headers URLs are
// redacted.
func (r *Redactor) Header(h http.Header) http.Header {
	shown := make(http.Header, len(h))
	for name, values := range h {
		secret := r.SecretHeader(name)
		list := make([]string, len(values))
		for i, v := range values {
			if list[i] = Mask; !secret {
				list[i] = r.Text(v)
			}
		}
		shown[name] = list
	}
	return shown
}
