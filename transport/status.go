package transport

import (
	"errors"
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
		e.URL = shown(res.Request)
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

// classOf is the class of a request: that of the status where it decides, because a 429
// whose body is spoilt still means "not now"; otherwise that of whatever went wrong. A
// refusal by a layer further in says nothing of the host, which was not asked.
func classOf(res *http.Response, err error) outcome.Class {
	if h, ok := errors.AsType[*resilience.HedgeError](err); ok {
		return classOfHedge(h)
	}
	if errors.Is(err, resilience.ErrOpen) || errors.Is(err, resilience.ErrBulkheadFull) || errors.Is(err, resilience.ErrClosed) {
		return outcome.Canceled
	}
	class := outcome.Of(0, err)
	if res == nil || class == outcome.Canceled {
		return class
	}
	if status := outcome.Of(res.StatusCode, nil); err == nil || status != outcome.OK {
		return status
	}
	return class
}

// classOfHedge is the class of what happened to the first request of a hedge that failed:
// something that another try may cure, or it would have decided. Where no error shows it,
// it was an answer by which HedgeClassifier fails, that is by a gateway.
func classOfHedge(h *resilience.HedgeError) outcome.Class {
	for _, err := range h.Errs {
		if class := classOf(nil, err); class.Transient() {
			return class
		}
	}
	return outcome.Gateway
}

// TransientClassifier is the Classifier of [NewRetry]: a [resilience.Failure] is what another
// try may cure, that is timeouts, network errors, 408, 425, 429, 502, 503 and 504. Every
// other answer stands, and every other error is Ignored: a certificate does not get better
// by asking again, nor does a refusal by a layer of our own.
func TransientClassifier(res *http.Response, err error) resilience.Classification {
	return classification(classOf(res, err), outcome.Class.Transient)
}

// OverloadClassifier is the Classifier of [NewBreaker]: a [resilience.Failure] is a sign of a
// host in trouble, that is what TransientClassifier fails and every other 5xx. Every other
// answer is a success, also a 404, and every other error is Ignored.
func OverloadClassifier(res *http.Response, err error) resilience.Classification {
	return classification(classOf(res, err), outcome.Class.Overload)
}

// HedgeClassifier is the Classifier of [NewHedge]: a [resilience.Failure], which starts
// another request at once and does not decide while one is under way, is what
// TransientClassifier fails except 429 and 503. A host that says "not now" is not asked
// again at once; a retry around the hedge asks when it may.
func HedgeClassifier(res *http.Response, err error) resilience.Classification {
	return classification(classOf(res, err), func(c outcome.Class) bool {
		return c.Transient() && c != outcome.Throttled && c != outcome.Unavailable
	})
}

func classification(class outcome.Class, bad func(outcome.Class) bool) resilience.Classification {
	switch {
	case bad(class):
		return resilience.Failure
	case class.Answered():
		return resilience.Success
	}
	return resilience.Ignored
}
