package config

import (
	"errors"
	"fmt"
	"math/bits"
	"net/mail"
	"net/netip"
	"net/textproto"
	"net/url"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/http/httpguts"

	"github.com/treadlight/crawl/internal/document"
	"github.com/treadlight/crawl/internal/fetch/redact"
	"github.com/treadlight/crawl/internal/web/canonical"
	"github.com/treadlight/crawl/internal/web/scope"
)

// The following functions check values of table rows beyond range and words. Each gets the value as written, and says
// what is wrong and what to write. None gets an empty text where that means none.

func parses[T any](read func(string) (T, error)) func(string) error {
	return func(s string) error {
		_, err := read(s)
		return err
	}
}

// textMax bounds the length of every text. No header, path, pattern or name in use is nearly as long, and servers
// commonly reject header lines beyond 8 KiB.
const textMax = 4096

// printable rejects texts that cannot be shown on one line: such a value is an accident, or an attempt to forge lines
// of a log.
func printable(s string) error {
	if len(s) > textMax {
		return fmt.Errorf("is %d bytes long; give at most %d", len(s), textMax)
	}
	if !utf8.ValidString(s) {
		return errors.New("is not valid UTF-8; write it in that encoding")
	}
	for _, r := range s {
		if !unicode.IsGraphic(r) {
			return fmt.Errorf("contains the unprintable character %U; remove it", r)
		}
	}
	return nil
}

func fileName(s string) error {
	if s == "" {
		return errors.New("is empty; give a file name, or - for standard output")
	}
	return printable(s)
}

// noStream checks names of files that are read and replaced, which is impossible with a stream.
func noStream(s string) error {
	if s == "-" {
		return errors.New(`"-" cannot be read back as a file can; give a file name, or ./- for a file of that name`)
	}
	return printable(s)
}

func directory(s string) error {
	if s == "-" {
		return errors.New(`"-" is a stream and no directory; give its name, or ./- for one of that name`)
	}
	return printable(s)
}

// ParseScore parses "POINTS REGEXP". The error says what to write.
func ParseScore(s string) (scope.Score, error) {
	points, pattern, ok := strings.Cut(s, " ")
	n, err := strconv.Atoi(points)
	if err != nil || n < -scope.MaxPoints || n > scope.MaxPoints || !ok {
		return scope.Score{}, fmt.Errorf("%s does not begin with points; give a whole number from -%d to %d, a space and a regular expression",
			document.Quote(s), scope.MaxPoints, scope.MaxPoints)
	}
	re, err := expression(pattern)
	return scope.Score{Match: re, Points: n}, err
}

// expression compiles patterns for URLs. An empty pattern matches everything, which nobody means.
func expression(s string) (*regexp.Regexp, error) {
	if s == "" {
		return nil, errors.New("is empty and would match every URL; remove it or give a regular expression")
	}
	if err := printable(s); err != nil {
		return nil, err
	}
	re, err := regexp.Compile(s)
	if bad, ok := errors.AsType[*syntax.Error](err); ok {
		err = fmt.Errorf(`%s is not a regular expression (%s: %s); see the syntax of Go's regexp package, or write \.pdf$ for *.pdf`,
			document.Quote(s), bad.Code, document.Quote(bad.Expr))
	}
	return re, err
}

// ourHeaders are set by the crawler or belong to the connection. A second one would make the request ambiguous, which
// is how requests are smuggled past proxies.
var ourHeaders = []string{
	"Accept-Encoding", "Connection", "Content-Length", "Expect", "Host", "Keep-Alive",
	"Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "User-Agent",
}

// header checks "Name: value". Messages never repeat the value, which may be a secret; in a line without a colon any
// part may be.
func header(s string) error {
	name, value, ok := strings.Cut(s, ":")
	value = strings.TrimSpace(value)
	switch {
	case !ok:
		return errors.New(`has no colon; write "Name: value"`)
	case !httpguts.ValidHeaderFieldName(name):
		return errors.New(`has a name that is not a header name; write "Name: value" with letters, digits and dashes in the name`)
	case value == "":
		return fmt.Errorf("%s has no value; write %q or remove the line", document.Quote(name), name+": value")
	// net/http would reject a line end too, but only at each request.
	case !httpguts.ValidHeaderFieldValue(value) || printable(value) != nil:
		return fmt.Errorf("%s has a value with control characters, or one that is too long; write it on one line", document.Quote(name))
	case textproto.CanonicalMIMEHeaderKey(name) == "User-Agent":
		return errors.New("User-Agent is set by fetch.user_agent (--user-agent); write it there")
	case slices.Contains(ourHeaders, textproto.CanonicalMIMEHeaderKey(name)):
		return fmt.Errorf("%s is the crawler's own to set; remove it", document.Quote(name))
	}
	return nil
}

// headerText checks a header value that is sent as it is.
func headerText(s string) error {
	if err := printable(s); err != nil {
		return err
	}
	if strings.Trim(s, " ") != s {
		return errors.New("begins or ends with a space; remove it")
	}
	for _, r := range s {
		if r > unicode.MaxASCII {
			return fmt.Errorf("contains %q; a header is plain ASCII", r)
		}
	}
	return nil
}

// contact accepts a URL or mail address that fits into the comment of a User-Agent, which is why it must not contain
// parentheses.
func contact(s string) error {
	if err := headerText(s); err != nil {
		return err
	}
	// url.Parse accepts nearly anything as a path, so scheme and host are checked;
	// mail.ParseAddress accepts a name beside the address, which would need brackets.
	u, err := url.Parse(s)
	web := err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != ""
	addr, err := mail.ParseAddress(strings.TrimPrefix(s, "mailto:"))
	post := err == nil && addr.Name == "" && addr.Address == strings.TrimPrefix(s, "mailto:")
	if !web && !post || strings.ContainsAny(s, "() <>") {
		return fmt.Errorf("%s is neither; give a URL such as https://example.com/bot or a mail address", document.Quote(s))
	}
	return nil
}

func powerOfTwo(s string) error {
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n&(n-1) == 0 {
		return nil // a value that is not a positive number is reported elsewhere
	}
	below := 1 << (bits.Len(uint(n)) - 1)
	return fmt.Errorf("%d is not a power of two; give %d or %d", n, below, below*2)
}

// hostPattern checks the match of a rule. It must have the spelling under which hosts are paced, because a rule in
// another spelling would silently match nothing.
func hostPattern(s string) error {
	if s == "" {
		return errors.New("is empty; give a host such as example.com or *.example.com")
	}
	if err := printable(s); err != nil {
		return err
	}
	if strings.Contains(s, "/") {
		return fmt.Errorf("%s is more than a host; leave out scheme and path", document.Quote(s))
	}
	name, wild := strings.CutPrefix(s, "*.")
	host, port := splitPort(name)
	canonical, err := canonicalHost(host, wild)
	if err != nil {
		return fmt.Errorf("%s %w", document.Quote(s), err)
	}
	// Host names have no default port, so a rule with one never matches.
	switch n, err := strconv.ParseUint(port, 10, 16); {
	case port == "80", port == "443":
		return fmt.Errorf("%s names a default port; write it without :%s", document.Quote(s), port)
	case port != "" && (err != nil || n == 0 || port[0] == '0'):
		return fmt.Errorf("%s has a port that is none; give 1 to 65535", document.Quote(s))
	case canonical != host:
		return fmt.Errorf("%s is not how the host is named; write %q", document.Quote(s),
			strings.Replace(s, host, canonical, 1))
	}
	return nil
}

// splitPort splits off a port. A colon without digits behind it stays with the host, where it is found to be wrong; so
// does every colon of an IPv6 address without brackets.
func splitPort(s string) (host, port string) {
	i := strings.LastIndexByte(s, ':')
	if i < 0 || i == len(s)-1 || strings.Contains(s[:i], ":") && !strings.HasSuffix(s[:i], "]") {
		return s, ""
	}
	return s[:i], s[i+1:]
}

// canonicalHost returns the only spelling of a host that package canonical uses in URLs: an address in its shortest
// form, IPv6 in brackets, or a name in lower case and in ASCII.
func canonicalHost(host string, wild bool) (string, error) {
	if ip, err := netip.ParseAddr(host); err == nil && ip.Is6() {
		host = "[" + host + "]"
	}
	u, err := canonical.Parse("http://" + host + "/")
	if err != nil || host == "" || strings.Contains(host, "*") || !strings.HasPrefix(host, "[") && strings.ContainsAny(host, ":@?#%") {
		return "", errors.New("is not a host; give one such as example.com, *.example.com or 192.0.2.1:8080")
	}
	if _, err := netip.ParseAddr(strings.Trim(u.Host(), "[]")); err == nil && wild {
		return "", errors.New("has a wildcard before an address; only names have names below them")
	}
	return u.Host(), nil
}

// redacted replaces a secret in what is printed. It is a valid value, so that a printed configuration can be loaded
// again.
const redacted = "REDACTED"

// redactHeader hides the value of a header that may contain a credential, and the whole of a line in which name and
// value cannot be told apart.
func redactHeader(s string) string {
	name, _, _ := strings.Cut(s, ":")
	if strings.Contains(s, ":") && !strings.Contains(strings.ToLower(name), "key") && !secretHeader(name) {
		return s
	}
	return redactHeaderValue(s)
}

func redactHeaderValue(s string) string {
	name, _, ok := strings.Cut(s, ":")
	if !ok {
		return redacted
	}
	return name + ": " + redacted
}

var secretHeader = (*redact.Redactor)(nil).SecretHeader

// What may follow the number of a budget, after a slash.
const (
	perHost  = "host"
	perCrawl = "crawl"
)

const budgetMax = 1_000_000_000

// ParseBudget parses "N REGEXP" or "N/host REGEXP", which mean N URLs per host, or "N/crawl REGEXP", which means N URLs
// of all hosts together. The error says what to write.
func ParseBudget(s string) (scope.Budget, error) {
	amount, pattern, _ := strings.Cut(s, " ")
	number, per, given := strings.Cut(amount, "/")
	n, err := strconv.Atoi(document.Ungroup(number))
	switch {
	case err != nil || n < 0 || given && per != perHost && per != perCrawl:
		return scope.Budget{}, fmt.Errorf(`%s does not begin with a number of pages; give "N REGEXP" for so many of each host, or "N/%s REGEXP" for so many of all hosts together`,
			document.Quote(s), perCrawl)
	case n == 0:
		return scope.Budget{}, fmt.Errorf("%s leaves nothing; give a number of pages from 1 up, or leave such URLs out with scope.exclude (--exclude)", document.Quote(s))
	case n > budgetMax:
		return scope.Budget{}, fmt.Errorf("%s is more than a crawl can have; give at most %d pages", document.Quote(s), budgetMax)
	}
	re, err := expression(strings.TrimSpace(pattern)) // no URL contains a space
	return scope.Budget{Match: re, MaxPages: n, PerCrawl: per == perCrawl}, err
}
