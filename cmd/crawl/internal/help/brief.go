package help

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/treadlight/crawl/cmd/crawl/internal/human"
	"github.com/treadlight/crawl/internal/ratelimit/control"
	"github.com/treadlight/crawl/internal/records/sink"
)

// briefIntro is the top of `crawl --help`, which fits one screen.
const briefIntro = `Crawl visits sites as fast as each host tolerates and no faster. It learns the
rate, obeys robots.txt and every Retry-After, and writes one record per URL.

Usage: crawl [flags] URL...   or   crawl COMMAND [flags]

Examples:
  crawl demo                                      see it at work, offline
  crawl -d 3 -o pages.jsonl https://example.com/  three links deep, into a file
  crawl -i seeds.txt --format csv -o pages.csv    many sites
  crawl -o site/ https://example.com/             a crawl that can be resumed
  crawl resume site                               after whatever ended it
`

// briefGroup is a group of flags in the short help.
type briefGroup struct {
	title string
	Flags []briefFlag
}

// briefFlag is a flag of the short help and its text, which is shorter than that of the full
// help.
type briefFlag struct{ Name, text string }

// BriefFlags are the flags that most people use.
func BriefFlags() []briefGroup {
	return []briefGroup{
		{"What to crawl", []briefFlag{
			{"input-file", "read seed URLs from a file; - is standard input"},
			{"depth", "links away from a seed (default: no limit)"},
			{"scope", "host, domain, prefix or any (default host)"},
			{"include", "follow only URLs that match"},
			{"exclude", "leave out URLs that match"},
			{"max-pages", "end after so many pages"},
			{"max-time", "end after so long, such as 30m"},
		}},
		{"How fast", []briefFlag{
			{"max-rate", "most requests per second to a host (default 10)"},
			{"min-delay", "least time between two requests to a host"},
			{"concurrency", "requests in flight over all hosts (default 64)"},
			{"strategy", human.OneOf(append(control.Names(), "off")) + " (default " + control.Names()[0] + ")"},
		}},
		{"Requests", []briefFlag{
			{"contact", "URL or mail address for the operators of sites"},
			{"header", "send a header, \"Name: value\""},
			{"auth", "HOST=user:password or \"HOST=bearer TOKEN\""},
		}},
		{"Output and messages", []briefFlag{
			{"output", "write here: " + sink.EndingList(", ") + " or a DIR/"},
			{"field", "take a value out of pages: NAME=css:SELECTOR"},
			{"record", "also text, main-text, metadata or body"},
			{"listen", "dashboard and API, 8091 for instance"},
			{"config", "read settings from a YAML or JSON file"},
			{"quiet", "show errors only"},
		}},
	}
}

// briefHelp writes the help of the program that fits one screen of columns.
func briefHelp(w io.Writer, root *cobra.Command, columns int) error {
	const margin = 26 // the longest spelling among the flags, and two spaces
	var b strings.Builder
	b.WriteString(briefIntro)
	for i, g := range BriefFlags() {
		if i == 0 {
			b.WriteString("\n")
		}
		b.WriteString(g.title + ":\n")
		for _, f := range g.Flags {
			lines := human.Wrap(f.text, max(columns-margin, 24))
			fmt.Fprintf(&b, "%-*s%s\n", margin, FlagSpelling(root.Flags().Lookup(f.Name)), strings.Join(lines, "\n"+strings.Repeat(" ", margin)))
		}
	}
	var names []string
	for _, c := range root.Commands() {
		if c.IsAvailableCommand() || c.Name() == "help" {
			names = append(names, c.Name())
		}
	}
	lines := human.Wrap("Commands: "+strings.Join(names, ", "), columns)
	b.WriteString(strings.Join(lines, "\n  ") + "\n")
	b.WriteString("More: crawl help COMMAND, crawl --help-all, crawl config --reference\n")
	_, err := io.WriteString(w, b.String())
	return err
}
