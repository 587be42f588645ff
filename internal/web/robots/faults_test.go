package robots_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/web/robots"
)

// What no crawler obeys is told of by its line; what RFC 9309 or a search engine knows is not.
func TestFaults(t *testing.T) {
	for file, want := range map[string]string{
		"": "", "\ufeffUser-agent: *\r\nDisallow:\r\nAllow: /a$ # so\n\n#\nCrawl-delay: 1\nContent-Signal: ai-train=no": "",
		"Sitemap: https://a.test/s.xml\nuser-agent: a\nuser-agent: b\nDisallow: *.pdf$": "",
		" <!DOCTYPE html>\nUser-agent: *":                                               "it is HTML and no robots.txt",
		"Disallow: /\nUser-agent: *":                                                    "line 1: disallow stands before the first user-agent",
		"User-agent:\nAllow: x":                                                         "line 1: user-agent without a name|line 2: allow begins with neither / nor *: x",
		"User-agent: *\nDisallow: /a$b":                                                 "line 2: $ stands elsewhere than at the end: /a$b",
		"User-agent: *\rNoindex: /x":                                                    "line 2: noindex is obeyed by no search engine: use meta robots or X-Robots-Tag",
		"Dissallow: /\nwhat\n: x":                                                       "line 1: unknown name dissallow|line 2: no name and colon: what|line 3: unknown name ",
		"Sitemap: /s.xml":                                                               "line 1: the sitemap is no whole URL: /s.xml",
	} {
		require.Equal(t, want, strings.Join(robots.Faults([]byte(file), 20), "|"), "%q", file)
	}
	require.Len(t, robots.Faults([]byte(strings.Repeat("x\n", 1000)), 20), 20)
}
