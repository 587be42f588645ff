package admission

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
)

// KeyFunc says who is counted for a request. It must be safe for concurrent use and must
// not change the request.
//
// Those of this package begin each key with what it is of, so that a user who calls
// himself "192.0.2.1" is not counted with that address. An error means that nobody can be
// counted; then the rule's OnError decides. Return one only for what a client cannot
// bring about, or it is a way round the limit.
type KeyFunc func(r *http.Request) (string, error)

// Global counts all requests together.
func Global() KeyFunc {
	return func(*http.Request) (string, error) { return "global", nil }
}

// Header counts by the first value of a header, such as X-API-Key, or by the Host, in
// lower case. A request without it is counted by missing: nil means ClientIP without proxies.
//
// Whoever invents a value has an account of his own for each. Count by a header behind
// what verifies it, or count by the address too.
func Header(name string, missing KeyFunc) KeyFunc {
	name = http.CanonicalHeaderKey(name)
	prefix := "header:" + name + ":" // a name has no colon
	missing = orClientIP(missing)
	if name == "Host" { // which net/http takes out of the headers
		return byName(prefix, func(r *http.Request) (string, error) { return strings.ToLower(r.Host), nil }, missing)
	}
	return func(r *http.Request) (string, error) {
		if lines := r.Header[name]; len(lines) > 0 && lines[0] != "" {
			return prefix + lines[0], nil
		}
		return missing(r)
	}
}

// byName puts a prefix before what key says, and counts by missing if that is nothing.
func byName(prefix string, key, missing KeyFunc) KeyFunc {
	return func(r *http.Request) (string, error) {
		switch k, err := key(r); {
		case err != nil:
			return "", err
		case k != "":
			return prefix + k, nil
		}
		return missing(r)
	}
}

// User counts by the user, whom principal names, such as from the context into which the
// authentication has put him. Who has no name is counted by missing, and not with all others
// who have none: nil means ClientIP without proxies.
func User(principal func(*http.Request) string, missing KeyFunc) KeyFunc {
	missing = orClientIP(missing)
	return func(r *http.Request) (string, error) {
		if principal != nil {
			if name := principal(r); name != "" {
				return "user:" + name, nil
			}
		}
		return missing(r)
	}
}

// Route counts all requests to a route together: by the pattern that http.ServeMux has
// matched, or, in front of a mux, by method and path, decoded, cleaned, without parameters and
// in one case, so that other spellings of a path have no account of their own. A client that
// varies the path has one for each, so count by the address too.
func Route() KeyFunc {
	return func(r *http.Request) (string, error) {
		if r.Pattern != "" {
			return "route:" + r.Pattern, nil
		}
		return "route:" + r.Method + " " + canonical(r.URL), nil // a pattern with a method matches it there, too
	}
}

// Composite counts by several things at once. Each part comes after its length, so that
// two lists of parts never make one key, whatever characters are in them.
func Composite(parts ...KeyFunc) KeyFunc {
	parts = append([]KeyFunc(nil), parts...)
	return func(r *http.Request) (string, error) {
		if len(parts) == 0 {
			return "", errors.New("a composite key has no parts")
		}
		var b strings.Builder
		b.WriteString("all:")
		for _, part := range parts {
			key, err := part(r)
			if err != nil {
				return "", err
			}
			b.WriteString(strconv.Itoa(len(key)))
			b.WriteByte(':')
			b.WriteString(key)
		}
		return b.String(), nil
	}
}

func orClientIP(key KeyFunc) KeyFunc {
	if key == nil {
		return ClientIP()
	}
	return key
}
