package rules

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/treadlight/crawl/cmd/crawl/internal/audit/facts"
)

// verdict is the result of checking the target of a link.
type verdict int

const (
	unknown   verdict = iota // it was not requested
	fine                     // it exists
	moved                    // it redirects
	broken                   // it does not exist
	failing                  // its server fails, for now or permanently
	unclear                  // it may exist: a defense against robots, a login, no response in time
	forbidden                // robots.txt disallows it
)

// refusals are statuses of URLs that may exist for others.
var refusals = []int{
	http.StatusUnauthorized, http.StatusForbidden, http.StatusMethodNotAllowed, http.StatusNotAcceptable, http.StatusProxyAuthRequired,
	http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests, http.StatusUnavailableForLegalReasons, 999,
}

// judge returns the verdict on a response, and the reason in words.
func judge(f *facts.Page) (verdict, string) {
	if f == nil {
		return unknown, ""
	}
	text := said(f.Status)
	gone := f.Status == http.StatusNotFound || f.Status == http.StatusGone
	switch kind := f.Status / 100; {
	case f.Class == "robots":
		return forbidden, "robots.txt forbids it"
	case f.Status == 0 || f.Class == "tls":
		return judgeError(f)
	case kind == 2, f.Status == http.StatusNotModified:
		return fine, ""
	case kind == 3 && f.To != "":
		return moved, fmt.Sprintf("%d to %s", f.Status, f.To)
	case kind == 3:
		return broken, text + " without a usable Location"
	case slices.Contains(refusals, f.Status):
		return unclear, text
	case f.Wall && (kind == 4 && !gone || f.Status == http.StatusServiceUnavailable):
		return unclear, text + ", by a wall against robots"
	case kind == 4:
		return broken, text
	case kind == 5:
		return failing, text
	}
	return unclear, text
}

// badCertificate matches the errors of a certificate for another name or another time. Other errors may be the fault of
// this machine.
var badCertificate = regexp.MustCompile(`valid for|expired|any names|IP SANs`)

// judgeError returns the verdict on a request without a response.
func judgeError(f *facts.Page) (verdict, string) {
	why := f.Message
	switch f.Class {
	case "no_host":
		return broken, "the host does not exist: " + why
	case "network":
		if strings.Contains(why, "refused") {
			return broken, "the connection was refused: " + why
		}
	case "tls":
		if badCertificate.MatchString(why) {
			return broken, "its certificate is wrong: " + why
		}
	case "address_denied":
		return unclear, "it leads to a private address, which is not asked without --allow-private: " + why
	case "too_large", "filtered", "bomb", "truncated":
		return fine, ""
	}
	return unclear, why
}

// said returns a status in words.
func said(status int) string {
	if text := http.StatusText(status); text != "" {
		return fmt.Sprintf("%d %s", status, text)
	}
	return fmt.Sprint("status ", status)
}
