package transport

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"

	"github.com/treadlight/crawl/internal/ratelimit/outcome"
	"github.com/treadlight/crawl/resilience"
)

// maxErrorBody bounds the body kept in a StatusError, in bytes: enough for any problem
// document, and little enough to keep a thousand of them.
const maxErrorBody = 64 << 10

// StatusError is an answer whose status says that the request failed. It is made by
// [CheckStatus]. Its text and its log form show no header and no body.
type StatusError struct {
	Status    int         // 400 to 999
	URL       string      // that was asked for, redacted
	Header    http.Header // as received, secrets included
	Body      []byte      // its first 64 KiB, as far as it could be read
	Truncated bool        // there was more
	Attempts  int         // how often the request was made, at least 1
}

var (
	_ outcome.Classed = (*StatusError)(nil)
	_ slog.LogValuer  = (*StatusError)(nil)
)

// Error names the status, the URL and the attempts if there were several.
func (e *StatusError) Error() string {
	text := fmt.Sprintf("%s: status %d", e.URL, e.Status)
	if name := http.StatusText(e.Status); name != "" {
		text += " " + name
	}
	if e.Attempts > 1 {
		text += fmt.Sprintf(" after %d attempts", e.Attempts)
	}
	return text
}

// Class is what the status means.
func (e *StatusError) Class() outcome.Class { return outcome.Of(e.Status, nil) }

// LogValue is the text.
func (e *StatusError) LogValue() slog.Value { return slog.StringValue(e.Error()) }

// CheckStatus returns nil for an answer that succeeded or redirects, and leaves it as it
// is. Of any other it reads and closes the body and returns a [*StatusError].
func CheckStatus(res *http.Response) error {
	if outcome.Of(res.StatusCode, nil).Success() || res.StatusCode == http.StatusSwitchingProtocols {
		return nil
	}
	defer Discard(res)
	e := &StatusError{Status: res.StatusCode, Header: res.Header, Attempts: Attempts(res)}
	if res.Request != nil {
		e.URL = shown(nil, res.Request)
	}
	if res.Body != nil {
		// An error while reading is no news: the status has been told.
		e.Body, _ = io.ReadAll(io.LimitReader(res.Body, maxErrorBody+1))
	}
	if len(e.Body) > maxErrorBody {
		e.Body, e.Truncated = e.Body[:maxErrorBody], true
	}
	return e
}

// Attempts is how often the request that res answers was made by the retry, at least 1.
func Attempts(res *http.Response) int {
	if res == nil || res.Request == nil {
		return 1
	}
	return max(1, resilience.AttemptFrom(res.Request.Context()))
}
