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

// badCertificate matches the errors of a certificate for another name or another time. Other errors may be the fault of
// this machine.
var badCertificate = regexp.MustCompile(`valid for|expired|any names|IP SANs`)

// unread are classes of errors after which the answer is not known as a whole.
var unread = []string{"decode", "network", "protocol", "timeout"}

// judge returns the verdict on a response, and the reason in words.
func judge(f *facts.Page) (verdict, string) {
	if f == nil {
		return unknown, ""
	}
	text := fmt.Sprint("status ", f.Status)
	if words := http.StatusText(f.Status); words != "" {
		text = fmt.Sprintf("%d %s", f.Status, words)
	}
	gone := f.Status == http.StatusNotFound || f.Status == http.StatusGone
	silent := f.Status == 0 || f.Class == "tls"
	switch kind := f.Status / 100; {
	case f.Class == "robots":
		return forbidden, "robots.txt forbids it"
	case f.Class == "no_host":
		return broken, "the host does not exist: " + f.Message
	case silent && f.Class == "network" && strings.Contains(f.Message, "refused"):
		return broken, "the connection was refused: " + f.Message
	case f.Class == "tls" && badCertificate.MatchString(f.Message):
		return broken, "its certificate is wrong: " + f.Message
	case f.Class == "address_denied":
		return unclear, "it leads to a private address, which is not asked without --allow-private: " + f.Message
	case silent && slices.Contains([]string{"too_large", "filtered", "bomb", "truncated"}, f.Class):
		return fine, ""
	case silent:
		return unclear, f.Message
	case kind == 2 && slices.Contains(unread, f.Class):
		return unclear, text + ", and then: " + f.Message
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
