package facts

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"github.com/treadlight/crawl"
)

// knownLines are the names of lines in a robots.txt that some crawler obeys.
var knownLines = map[string]bool{
	"user-agent": true, "allow": true, "disallow": true, "sitemap": true, "crawl-delay": true, "clean-param": true, "host": true,
	"request-rate": true, "visit-time": true, "content-signal": true, "content-usage": true,
}

// maxProblems bounds what is told of one file.
const maxProblems = 20

var robotsLine = regexp.MustCompile(`^\s*([^:#]*?)\s*:\s*([^#]*?)\s*(?:#.*)?$`)

// ReadRobots looks at a robots.txt. Its Links are the sitemaps that it names.
func ReadRobots(p *crawl.Page) *Page {
	f := New(p)
	f.Kind = Robots
	if p.Status != 200 {
		return f
	}
	body := strings.TrimPrefix(string(p.Body[:min(len(p.Body), 500<<10)]), "\uFEFF")
	if strings.HasPrefix(strings.TrimSpace(strings.ToLower(body)), "<") {
		f.Problems = append(f.Problems, "it is HTML and no robots.txt")
		return f
	}
	named := false // a line User-agent was there
	for i, line := range strings.Split(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(body), "\n") {
		bare, _, _ := strings.Cut(line, "#")
		if strings.TrimSpace(bare) == "" {
			continue
		}
		m := robotsLine.FindStringSubmatch(line)
		problem := "no name and colon: " + line
		if m != nil {
			problem = f.robotsLine(strings.ToLower(m[1]), m[2], &named)
		}
		if problem != "" && len(f.Problems) < maxProblems {
			f.Problems = append(f.Problems, clip(fmt.Sprintf("line %d: %s", i+1, problem)))
		}
	}
	return f
}

// robotsLine is what is wrong with a line; empty: nothing.
func (f *Page) robotsLine(name, value string, named *bool) string {
	switch {
	case name == "noindex":
		return "noindex is obeyed by no search engine: use meta robots or X-Robots-Tag"
	case !knownLines[name]:
		return "unknown name " + name
	case name == "user-agent":
		if *named = true; value == "" {
			return "user-agent without a name"
		}
	case name == "sitemap":
		u, err := url.Parse(value)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return "the sitemap is no whole URL: " + value
		}
		f.Links = append(f.Links, string(Anchor)+value)
	case name == "allow" || name == "disallow":
		switch {
		case !*named:
			return name + " stands before the first user-agent"
		case value != "" && value[0] != '/' && value[0] != '*':
			return name + " begins with neither / nor *: " + value
		case strings.Contains(strings.TrimSuffix(value, "$"), "$"):
			return "$ stands elsewhere than at the end: " + value
		}
	}
	return ""
}
