package redact

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// minSecret is the least length in bytes of a secret that Text searches for; shorter ones occur by chance.
const minSecret = 4

// delimiters end a URL within a text, as errors quote it.
const delimiters = " \t\r\n\"'`<>()[]{}|\\^"

// Text returns text without the user information of URLs, with the values of secret query parameters masked, also
// outside of URLs, and with the given secrets masked if they have 4 bytes or more.
func (r *Redactor) Text(text string, secrets ...string) string {
	if len(secrets) > 1 { // the longest first: otherwise a shorter one with which it begins would leave the rest
		secrets = slices.SortedFunc(slices.Values(secrets), func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	}
	for _, s := range secrets {
		if len(s) >= minSecret {
			text = strings.ReplaceAll(text, s, Mask)
		}
	}
	if !strings.ContainsAny(text, "@=") {
		return text
	}
	var b strings.Builder
	for text != "" {
		n := strings.IndexAny(text, delimiters)
		if n < 0 {
			n = len(text)
		}
		b.WriteString(r.word(text[:n]))
		if n < len(text) {
			b.WriteByte(text[n])
			n++
		}
		text = text[n:]
	}
	return b.String()
}

// word masks secrets in a text without delimiters.
func (r *Redactor) word(w string) string {
	if before, after, ok := strings.Cut(w, "://"); ok {
		w = before + "://" + withoutUser(after)
	}
	start := strings.IndexAny(w, "?#&")
	if start < 0 || !strings.Contains(w[start:], "=") {
		return w
	}
	var b strings.Builder
	b.WriteString(w[:start])
	for w = w[start:]; w != ""; {
		end := strings.IndexAny(w[1:], "?#&") + 1 // w begins with one of them
		if end == 0 {
			end = len(w)
		}
		b.WriteString(r.pair(w[:end]))
		w = w[end:]
	}
	return b.String()
}

// pair masks the value of one "?key=value" if it is secret. The first byte may also be "#" or "&".
func (r *Redactor) pair(p string) string {
	key, value, ok := strings.Cut(p, "=")
	if !ok || !r.secretPair(key[1:], value) {
		return p
	}
	return key + "=" + Mask
}

// Secrets returns the values in req that [Redactor.Text] has to mask: secret headers, whole and in parts, the password,
// and secret query parameters, as written and unescaped.
func (r *Redactor) Secrets(req *http.Request) []string {
	var list []string
	for name, values := range req.Header {
		if r.SecretHeader(name) {
			for _, v := range values {
				list = append(list, parts(v)...)
			}
		}
	}
	if req.URL == nil {
		return list
	}
	if password, ok := req.URL.User.Password(); ok {
		list = append(list, password, url.QueryEscape(password))
	}
	for pair := range strings.SplitSeq(req.URL.RawQuery, "&") {
		key, value, ok := strings.Cut(pair, "=")
		if !ok || !secretParam(key) {
			continue
		}
		list = append(list, value)
		if plain, err := url.QueryUnescape(value); err == nil {
			list = append(list, plain)
		}
	}
	return list
}

// parts returns the value of a header, the part after its scheme ("Bearer ..."), and the values of cookies.
func parts(value string) []string {
	list := []string{value}
	if _, after, ok := strings.Cut(value, " "); ok {
		list = append(list, strings.TrimSpace(after))
	}
	for field := range strings.SplitSeq(value, ";") {
		if _, after, ok := strings.Cut(field, "="); ok {
			list = append(list, strings.Trim(after, `" `))
		}
	}
	return list
}
