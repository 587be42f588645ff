package job

import (
	"errors"
	"net/http"
	"os"
	"strings"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/internal/fetch"
	"github.com/treadlight/crawl/internal/frontier/gate"
	"github.com/treadlight/crawl/internal/pipeline"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
	"github.com/treadlight/crawl/record"
)

// MendProxy is what a person can do about a proxy that fails.
const MendProxy = "look at --proxy and the variables HTTP_PROXY and HTTPS_PROXY; --proxy direct uses none"

// remedy says what a person can do about a seed that was not obtained; "" if the reason in the record says so itself.
func remedy(r *record.Record) string {
	switch class := r.ErrorClass(); class {
	case gate.ClassRobots:
		return "a site of your own can be crawled nevertheless, with --no-robots"
	case "":
	default:
		return remedyOf(class, r.URL)
	}
	switch {
	case r.Status == http.StatusUnauthorized || r.Status == http.StatusForbidden:
		return "what it may want: --auth HOST=user:password, --cookie-file FILE or --login FILE, with other values if they were given"
	case r.Status >= http.StatusInternalServerError:
		return "the site is in trouble: try again later"
	case r.RedirectTo != "":
		return "to crawl what it leads to, give that URL"
	}
	return "see what a browser shows at that URL, and correct it"
}

// remedyOf says what a person can do about a failure of that class to request a URL; "" if its text says so itself.
func remedyOf(class, url string) string {
	switch class {
	case outcome.Proxy.String():
		return MendProxy
	case outcome.AddressDenied.String():
		return ""
	case outcome.TLS.String():
		return "--set access.ca_file=FILE trusts the authority in that file, --insecure any certificate"
	}
	text := "'crawl doctor " + cli.ShellWord(url) + "' says how far a request gets"
	if variable := ProxyVariable(os.LookupEnv); variable != "" {
		text += "; the proxy of " + variable + " is used with --proxy env alone"
	}
	return text
}

// ProxyVariable returns the first variable that names a proxy for --proxy env; "" if none does.
func ProxyVariable(lookup func(string) (string, bool)) string {
	for _, name := range []string{"HTTPS_PROXY", "HTTP_PROXY", "https_proxy", "http_proxy"} {
		if value, _ := lookup(name); value != "" {
			return name
		}
	}
	return ""
}

// Advise returns err, with which the crawl of a verb ended, with what a person can do about it: if no seed could be
// reached, or if the crawl has waited for its proxy in vain. Other errors, and nil, it returns as they are.
func Advise(err error, c *crawl.Crawler) error {
	switch {
	case errors.Is(err, crawl.ErrUnreachable):
		if e, ok := errors.AsType[*fetch.Error](err); ok {
			return cli.Advise(err, remedyOf(e.Class().String(), strings.TrimSuffix(e.URL, "robots.txt")))
		}
	case errors.Is(err, crawl.ErrBlocked) && strings.HasPrefix(c.Snapshot().Reason, pipeline.ProxyFails):
		return cli.Advise(err, MendProxy)
	}
	return err
}
