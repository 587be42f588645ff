package admission

import (
	"encoding/json"
	"net/http"
	"strconv"
)

// The problem types that draft-ietf-httpapi-ratelimit-headers-10 registers.
const (
	typeQuotaExceeded   = "https://iana.org/assignments/http-problem-types#quota-exceeded"
	typeReducedCapacity = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"
)

// problem is a problem document (RFC 9457).
type problem struct {
	Type   string `json:"type,omitempty"` // empty means about:blank
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`
	// Violated is the draft's extension for its first type.
	Violated []string `json:"violated-policies,omitempty"`
	// Reason is the Result's, so that clients, logs and tests speak of the same thing.
	Reason Reason `json:"reason,omitempty"`
}

// Status is that of the answer to a denial: 429, or, if the store does not answer or has
// no place, 503, since that is the server's trouble and not the client's.
func (r *Result) Status() int {
	if r.Reason == ReasonFailClosed || r.Reason == ReasonTimeout || r.Reason == ReasonTooManyKeys {
		return http.StatusServiceUnavailable
	}
	return http.StatusTooManyRequests
}

// problemOf is the document of a denial.
func problemOf(res *Result) problem {
	p := problem{Detail: res.describe(), Reason: res.Reason, Status: res.Status()}
	if p.Status == http.StatusServiceUnavailable {
		p.Type, p.Title = typeReducedCapacity, "The service has less capacity for now"
		return p
	}
	p.Type, p.Title = typeQuotaExceeded, "A quota of requests is exceeded"
	if res.Plan != "" {
		p.Violated = []string{res.Plan}
	}
	return p
}

// write answers with the document. net/http leaves out the body for HEAD.
func (p problem) write(w http.ResponseWriter) {
	body, err := json.Marshal(p)
	if err != nil { // it is of text and numbers
		body = nil
	}
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Cache-Control", "no-store") // it is about one client and one moment
	h.Del("Content-Encoding")          // of whoever meant to write something else
	w.WriteHeader(p.Status)
	_, _ = w.Write(body) // a client that is gone needs no answer
}
