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

// maxErrorBody is how much of a body a StatusError keeps, in bytes.
const maxErrorBody = 64 << 10

// StatusError is the error of a response whose status says that the request failed, made by [CheckStatus]. Its text and
// log form contain neither header nor body.
type StatusError struct {
	Status    int         // 400 to 999
	URL       string      // of the request, redacted
	Header    http.Header // as received, including secrets
	Body      []byte      // the first 64 KiB, as far as they could be read
	Truncated bool        // whether the body is longer
	Attempts  int         // how often the request was sent, at least 1
}

var (
	_ outcome.Classed = (*StatusError)(nil)
	_ slog.LogValuer  = (*StatusError)(nil)
)

// Error returns the status, the URL and, if there were several, the number of attempts.
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

// Class returns the class of the status.
func (e *StatusError) Class() outcome.Class { return outcome.Of(e.Status, nil) }

// LogValue returns the text of Error.
func (e *StatusError) LogValue() slog.Value { return slog.StringValue(e.Error()) }

// CheckStatus returns nil for a success, a redirect or 101, and leaves res unchanged. Otherwise it reads and closes the
// body and returns a [*StatusError].
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
		// An error of reading is ignored: the status already says that the request failed.
		e.Body, _ = io.ReadAll(io.LimitReader(res.Body, maxErrorBody+1))
	}
	if len(e.Body) > maxErrorBody {
		e.Body, e.Truncated = e.Body[:maxErrorBody], true
	}
	return e
}

// Attempts returns how often the retry had sent the request when res came, at least 1.
func Attempts(res *http.Response) int {
	if res == nil || res.Request == nil {
		return 1
	}
	return max(1, resilience.AttemptFrom(res.Request.Context()))
}

// classOf returns the class of the status if that decides, as for a 429 with a broken body; otherwise the class of the
// error. A refusal by an inner layer tells nothing about the host.
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

// classOfHedge returns the class of the first failed request of a hedge. If none has an error that shows its class, it
// is that of a gateway error.
func classOfHedge(h *resilience.HedgeError) outcome.Class {
	for _, err := range h.Errs {
		if class := classOf(nil, err); class.Transient() {
			return class
		}
	}
	return outcome.Gateway
}

// TransientClassifier is the Classifier of [NewRetry]. A [resilience.Failure] is a timeout, a network error, or a
// status 408, 425, 429, 502, 503 or 504. Every other response is a Success, and every other error, such as a bad
// certificate or a refusal by a layer, is Ignored.
func TransientClassifier(res *http.Response, err error) resilience.Classification {
	return classification(classOf(res, err), outcome.Class.Transient)
}

// OverloadClassifier is the Classifier of [NewBreaker]. A [resilience.Failure] is one of TransientClassifier or another
// 5xx. Other responses are successes, also a 404, and other errors are Ignored.
func OverloadClassifier(res *http.Response, err error) resilience.Classification {
	return classification(classOf(res, err), outcome.Class.Overload)
}

// HedgeClassifier is the Classifier of [NewHedge]. A [resilience.Failure], which starts another request at once, is one
// of TransientClassifier except the statuses 429 and 503, which ask to try later.
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
