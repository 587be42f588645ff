package canonical

import (
	"errors"
	"fmt"
	"net"
	"regexp"
	"strings"
)

// ParseTyped reads a URL as a person types it: see [Typed]. It refuses what is no web address.
func ParseTyped(s string) (URL, error) {
	if err := checkScheme(s); err != nil {
		return URL{}, fmt.Errorf("%q: %w", s, err)
	}
	return Parse(Typed(s))
}

// Typed removes blanks and quotes around s and adds a missing scheme: https, or http if the port
// is neither 443 nor 8443.
func Typed(s string) string {
	s = unquoted(s)
	if strings.Contains(s, "://") || s == "" {
		return s
	}
	host, _, _ := strings.Cut(s, "/")
	if _, port, err := net.SplitHostPort(host); err == nil && port != "" && port != "443" && port != "8443" {
		return "http://" + s
	}
	return "https://" + s
}

// quotes are copied around URLs from mails and tables.
var quotes = [][2]string{{"<", ">"}, {`"`, `"`}, {"'", "'"}, {"“", "”"}, {"«", "»"}}

func unquoted(s string) string {
	s = strings.TrimSpace(s)
	for _, q := range quotes {
		if inner, ok := strings.CutPrefix(s, q[0]); ok {
			if inner, ok = strings.CutSuffix(inner, q[1]); ok {
				return strings.TrimSpace(inner)
			}
		}
	}
	return s
}

// otherSchemes have no "//", so that their addresses look like a host and a port.
var otherSchemes = regexp.MustCompile(`(?i)^(mailto|tel|sms|javascript|data|about|blob|urn|file):`)

func checkScheme(s string) error {
	s = unquoted(s)
	switch scheme := otherSchemes.FindString(s); {
	case scheme != "":
		return fmt.Errorf("%s addresses have no pages: give a URL with http or https", strings.ToLower(scheme))
	case strings.HasPrefix(s, `"`) || strings.HasPrefix(s, "'") || strings.HasPrefix(s, "“"):
		return errors.New("a quotation mark is in front, and none behind: take it off")
	case strings.HasPrefix(s, "/") || strings.HasPrefix(s, "./") || strings.HasPrefix(s, "../"):
		return errors.New("it is the path of a file: give a URL, or --input-file for a list of them")
	case strings.HasPrefix(s, "http:/") && !strings.HasPrefix(s, "http://"), strings.HasPrefix(s, "https:/") && !strings.HasPrefix(s, "https://"),
		strings.HasPrefix(s, "http//"), strings.HasPrefix(s, "https//"):
		return errors.New("two slashes are missing, or the colon: write http:// or https://")
	}
	return nil
}
