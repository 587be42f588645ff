// Package redact takes secrets out of what people get to read: logs, errors, records.
//
// Secrets reach a text by four ways: the value of a header (Authorization, Cookie), the user information of a URL,
// the value of a query parameter (?access_token=...), and an error that quotes any of them. [Redactor.Header],
// [Redactor.URL] and [Redactor.Text] mask them where they stand; [Redactor.Secrets] lists those of a request, so that
// Text finds them also where nothing around them says what they are.
//
// What is taken for a secret is broad on purpose: a masked harmless value costs a reader
// nothing. Paths are not masked; a secret in a path cannot be told from a page's name.
//
// Every function is pure and safe for concurrent use.
package redact

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Mask stands where a secret stood.
const Mask = "xxx"

// maxURL bounds a URL inside a line in bytes: a log line, not the record.
const maxURL = 500

// Redactor masks secrets. Made by [New], safe for concurrent use. Nil and zero know the rules of the package only.
type Redactor struct{ headers []string } // in lower case

// New returns a Redactor that masks the values of these headers as well, in any case.
func New(headers ...string) *Redactor {
	r := new(Redactor)
	for _, name := range headers {
		r.headers = append(r.headers, strings.ToLower(strings.TrimSpace(name)))
	}
	return r
}

// URL is rawURL without user information and fragment, secret query parameters masked, cut to a line's length.
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

// secretPair reports a secret key, or a value that is a URL or query with a secret in it.
func (r *Redactor) secretPair(key, value string) bool {
	if secretParam(key) {
		return true
	}
	// Twice, for a target that was escaped when it was passed on.
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

func looksSecret(name string) bool {
	for _, part := range []string{"token", "secret", "pass", "pwd", "auth", "session", "credential", "signature"} {
		if strings.Contains(name, part) {
			return true
		}
	}
	for _, end := range []string{"key", "sig", "sid", "code"} {
		if strings.HasSuffix(name, end) {
			return true
		}
	}
	return false
}

// SecretHeader reports whether this header is masked: Authorization, Proxy-Authorization, Cookie, Set-Cookie,
// X-Api-Key, secret-looking names, and those given to New.
func (r *Redactor) SecretHeader(name string) bool {
	name = strings.ToLower(name)
	return strings.Contains(name, "cookie") || looksSecret(name) || r != nil && slices.Contains(r.headers, name)
}

// Header is a copy of h with the values of secret headers masked, and in all others their URLs.
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
