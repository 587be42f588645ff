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

// maxErrorBody bounds the body kept in a StatusError, in bytes.
const maxErrorBody = 64 << 10

// StatusError is a failed answer, made by [CheckStatus]. Its text and log form show no header and no body.
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

// CheckStatus returns nil for a success or redirect, left as it is; else it reads and closes the body and returns a
// [*StatusError].
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

// classOf is the class of the status where it decides, as for a 429 with a broken body; else that of the error. An
// inner layer's refusal says nothing of the host.
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

// classOfHedge is the class of a hedge's first failed request, or that of a gateway where no error shows it.
func classOfHedge(h *resilience.HedgeError) outcome.Class {
	for _, err := range h.Errs {
		if class := classOf(nil, err); class.Transient() {
			return class
		}
	}
	return outcome.Gateway
}

// TransientClassifier is the Classifier of [NewRetry]: a [resilience.Failure] is a timeout, a network error, 408, 425,
// 429, 502, 503 or 504. Every other answer stands, and every other error, such as a bad certificate or our own
// refusal, is Ignored.
func TransientClassifier(res *http.Response, err error) resilience.Classification {
	return classification(classOf(res, err), outcome.Class.Transient)
}

// OverloadClassifier is the Classifier of [NewBreaker]: a [resilience.Failure] is that of TransientClassifier or
// another 5xx. Other answers are successes, also a 404, and other errors are Ignored.
func OverloadClassifier(res *http.Response, err error) resilience.Classification {
	return classification(classOf(res, err), outcome.Class.Overload)
}

// HedgeClassifier is the Classifier of [NewHedge]: a [resilience.Failure], which starts another request at once, is
// that of TransientClassifier except 429 and 503, which ask for later.
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
