package rules

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"

	"github.com/treadlight/crawl/cmd/crawl/internal/audit/facts"
)

// verdict is what a link to a URL is worth.
type verdict int

const (
	unknown   verdict = iota // it was not asked for
	fine                     // it is there
	moved                    // it redirects
	broken                   // it is not there
	failing                  // its server fails, for now or for long
	unclear                  // whether it is there was not to be learned: a wall, a login, no answer in time
	forbidden                // robots.txt keeps it from crawlers
)

// judge says what an answer is worth, and why in words.
func judge(f *facts.Page) (verdict, string) {
	switch {
	case f == nil:
		return unknown, ""
	case f.Class == "robots":
		return forbidden, "robots.txt forbids it"
	case f.Status == 0 || f.Class == "tls":
		return judgeError(f)
	case f.Status/100 == 2, f.Status == http.StatusNotModified:
		return fine, ""
	case f.Status/100 == 3 && f.To != "":
		return moved, fmt.Sprintf("%d to %s", f.Status, f.To)
	case f.Status/100 == 3:
		return broken, fmt.Sprintf("%s without a usable Location", said(f.Status))
	}
	text := said(f.Status)
	switch f.Status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusMethodNotAllowed, http.StatusNotAcceptable, http.StatusProxyAuthRequired,
		http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests, http.StatusUnavailableForLegalReasons, 999:
		return unclear, text
	case http.StatusServiceUnavailable:
		if f.Wall {
			return unclear, text + ", by a wall against robots"
		}
	}
	switch {
	case f.Wall && f.Status/100 == 4 && f.Status != http.StatusNotFound && f.Status != http.StatusGone:
		return unclear, text + ", by a wall against robots"
	case f.Status/100 == 4:
		return broken, text
	case f.Status/100 == 5:
		return failing, text
	}
	return unclear, text
}

// badCertificate tells a certificate of another name, or of another time, from what may be the fault of this machine.
var badCertificate = regexp.MustCompile(`valid for|expired|any names|IP SANs`)

// judgeError is the verdict on what did not answer.
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

// said is a status in words.
func said(status int) string {
	if text := http.StatusText(status); text != "" {
		return fmt.Sprintf("%d %s", status, text)
	}
	return fmt.Sprint("status ", status)
}
