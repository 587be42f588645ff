package robots

import (
	"fmt"
	"net/url"
	"strings"
)

// known has the names of lines that some crawler obeys. Misspelled names are not among them, although a few crawlers
// accept some.
const known = " user-agent allow disallow sitemap crawl-delay clean-param host request-rate visit-time content-signal content-usage "

// Faults returns what is wrong with the lines of a file, in words, at most most of them: "line 3: unknown name noidex".
func Faults(body []byte, most int) (faults []string) {
	text := strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(textOf(body))
	if strings.HasPrefix(strings.TrimSpace(text), "<") {
		return []string{"it is HTML and no robots.txt"}
	}
	named, n := false, 0 // named is true after the first line User-agent
	for line := range strings.SplitSeq(text, "\n") {
		n++
		bare, _, _ := strings.Cut(line, "#")
		name, value, ok := strings.Cut(bare, ":")
		name, value = strings.ToLower(strings.Trim(name, space)), strings.Trim(value, space)
		fault := "no name and colon: " + line
		if ok {
			fault = faultOf(name, value, named)
		}
		if strings.Trim(bare, space) != "" && fault != "" && len(faults) < most {
			faults = append(faults, fmt.Sprintf("line %d: %s", n, fault))
		}
		named = named || name == "user-agent"
	}
	return faults
}

// faultOf returns what is wrong with a line, or the empty string.
func faultOf(name, value string, named bool) string {
	switch rule := name == "allow" || name == "disallow"; {
	case name == "noindex":
		return "noindex is obeyed by no search engine: use meta robots or X-Robots-Tag"
	case name == "" || !strings.Contains(known, " "+name+" "):
		return "unknown name " + name
	case name == "user-agent" && value == "":
		return "user-agent without a name"
	case name == "sitemap":
		if u, err := url.Parse(value); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return "the sitemap is no whole URL: " + value
		}
	case rule && !named:
		return name + " stands before the first user-agent"
	case rule && value != "" && value[0] != '/' && value[0] != '*':
		return name + " begins with neither / nor *: " + value
	case rule && strings.Contains(strings.TrimSuffix(value, "$"), "$"):
		return "$ stands elsewhere than at the end: " + value
	}
	return ""
}
