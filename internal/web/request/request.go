// Package request says how URLs are requested that a program or a user gives: by another method, with a body, with
// header fields. A [Request] is stored with its URL as text.
package request

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/http/httpguts"

	"github.com/treadlight/crawl/internal/fetch"
)

// Request is what a handler requests besides a URL. The zero Request is a GET of the URL alone.
type Request struct {
	// Method and Body make the request a different resource than the URL alone. An empty Method means GET.
	Method string `json:"method,omitempty"`
	Body   []byte `json:"body,omitempty"`
	// Again makes the request different from all others of its URL with another value. Empty means no difference.
	Again string `json:"again,omitempty"`

	Header http.Header       `json:"header,omitempty"`
	Label  string            `json:"label,omitempty"`
	Meta   map[string]string `json:"meta,omitempty"`

	Outside bool `json:"outside,omitempty"` // visited even outside of the scope, unless it is excluded
	Points  int  `json:"-"`                 // adjusts the rank; see [scope.Score]
}

const (
	// MaxMeta bounds the keys and values of Meta, and the Label, in bytes.
	MaxMeta = 1 << 10
	// MaxRequest bounds all of a Request, in bytes as it is stored.
	MaxRequest = 64 << 10
)

// forbidden lists the header fields that the client sets itself and that a Request must not have.
var forbidden = []string{"Host", "Connection", "Content-Length", "Transfer-Encoding", "Te", "Trailer", "Upgrade", "Expect", "Proxy-Authorization"}

// check returns what is wrong with a Request made by a program.
func (q *Request) check() error {
	for name, values := range q.Header {
		switch {
		case !httpguts.ValidHeaderFieldName(name) || slices.ContainsFunc(values, func(v string) bool { return !httpguts.ValidHeaderFieldValue(v) }):
			return fmt.Errorf("header field %q is none that can be sent", name)
		case slices.ContainsFunc(values, isNoText):
			return fmt.Errorf("header field %s is not UTF-8", name)
		case slices.Contains(forbidden, http.CanonicalHeaderKey(name)):
			return fmt.Errorf("header field %s is the client's own", name)
		}
	}
	if q.Method != "" && !httpguts.ValidHeaderFieldName(q.Method) || q.Method == http.MethodConnect {
		return fmt.Errorf("method %q cannot be sent", q.Method)
	}
	size, noText := len(q.Label), isNoText(q.Label)
	for key, value := range q.Meta {
		size += len(key) + len(value)
		noText = noText || isNoText(key) || isNoText(value)
	}
	switch {
	case size > MaxMeta:
		return fmt.Errorf("label and meta have %d bytes, more than %d", size, MaxMeta)
	case noText:
		return errors.New("label and meta are not UTF-8")
	case isNoText(q.Again) || strings.Contains(q.Again, "\n"):
		return errors.New("the key by which it is visited again is not one line of UTF-8")
	}
	return nil
}

// isNoText reports whether s is not UTF-8, so that a Request cannot be stored with it.
func isNoText(s string) bool { return !utf8.ValidString(s) }

// Encode returns the Request as text: a line that is the same for the same visit of a URL, and the rest. It is empty for
// a GET of the URL alone. The error names what cannot be sent.
func (q *Request) Encode() (string, error) {
	if err := q.check(); err != nil {
		return "", err
	}
	if q.Method == http.MethodGet {
		q.Method = ""
	}
	text, err := json.Marshal(q)
	if err != nil || string(text) == "{}" {
		return "", err
	}
	identity := ""
	if q.Method != "" || len(q.Body) > 0 || q.Again != "" {
		sum := sha256.Sum256(q.Body)
		identity = strings.TrimSpace(q.Method + " " + hex.EncodeToString(sum[:8]) + " " + q.Again)
	}
	if len(identity)+len(text) >= MaxRequest {
		return "", fmt.Errorf("the request has more than %d bytes", MaxRequest)
	}
	return identity + "\n" + string(text), nil
}

// Decode returns the Request that [Request.Encode] returned as text. Other text gives a GET of the URL alone.
func Decode(stored string) Request {
	if stored == "" {
		return Request{}
	}
	var q Request
	_, text, _ := strings.Cut(stored, "\n")
	if json.Unmarshal([]byte(text), &q) != nil || q.check() != nil {
		return Request{}
	}
	return q
}

// Identity returns what distinguishes the visit of a stored Request from others of its URL; empty for a plain GET.
func Identity(stored string) string {
	identity, _, _ := strings.Cut(stored, "\n")
	return identity
}

// Apply sets in a request that is sent what the program or the user gave.
func (q *Request) Apply(to *fetch.Request) {
	to.Method, to.Payload = q.Method, q.Body
	if len(q.Header) == 0 {
		return
	}
	h := q.Header.Clone()
	maps.Copy(h, to.Header)
	to.Header = h
}

// Moved returns the request for the target of a redirect with that status (RFC 9110 section 15.4): the same after 307
// and 308, a GET after others. HEAD stays HEAD.
func (q Request) Moved(status int) Request {
	if status != http.StatusTemporaryRedirect && status != http.StatusPermanentRedirect && q.Method != http.MethodHead {
		q.Method, q.Body, q.Header = "", nil, q.Header.Clone()
		q.Header.Del("Content-Type")
	}
	return q
}
