package flags

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
)

// Manual returns the manual page of a command, in the macros of man(7): its help and, for the program itself, its
// variables, exit codes and signals. The page has no date, so that one version always makes the same file.
func Manual(cmd *cobra.Command) string {
	var b strings.Builder
	line := func(format string, args ...string) { // writes a request of man(7) with its arguments escaped
		escaped := make([]any, len(args))
		for i, s := range args {
			escaped[i] = EscapeRoff(s)
		}
		fmt.Fprintf(&b, format+"\n", escaped...)
	}
	prose := func(text string) { // paragraphs are filled, except indented ones
		for block := range strings.SplitSeq(text, "\n\n") {
			if strings.HasPrefix(block, " ") || strings.Contains(block, "\n ") {
				line(".PP\n.nf\n%s\n.fi", block)
			} else {
				line(".PP\n%s", block)
			}
		}
	}
	name := strings.ReplaceAll(cmd.CommandPath(), " ", "-")
	line(`.TH "%s" "1" "" "crawl %s" "Treadlight"`, strings.ToUpper(name), cli.Version())
	line(".SH NAME\n%s \\- %s", name, strings.ToLower(cmd.Short[:1])+cmd.Short[1:])
	line(".SH SYNOPSIS\n.B %s", cmd.UseLine())
	if !cmd.HasParent() {
		line(".br\n.B %s", cmd.Name()+" COMMAND [flags]")
	}
	if cmd.Long != "" {
		line(".SH DESCRIPTION")
		prose(cmd.Long)
	}
	if cmd.HasAvailableSubCommands() {
		line(".SH COMMANDS")
		for _, c := range cmd.Commands() {
			if c.IsAvailableCommand() {
				line(".TP\n.B %s\n%s", c.Name(), c.Short)
			}
		}
	}
	groups := grouped(cmd)
	if len(groups) > 0 {
		line(".SH OPTIONS")
	}
	for _, g := range Groups {
		if len(groups[g]) > 0 && g != GroupOwn {
			line(".SS %s", g)
		}
		for _, f := range groups[g] {
			line(".TP\n.B %s\n%s", strings.TrimSpace(FlagSpelling(f)), Describe(f))
		}
	}
	if cmd.Example != "" {
		line(".SH EXAMPLES\n.nf\n%s\n.fi", cmd.Example)
	}
	if !cmd.HasParent() {
		line(".SH ENVIRONMENT")
		prose("Every setting can be given as a variable: that of a.b is CRAWL_A_B. 'crawl config --reference' lists them with their units, ranges and defaults.")
		line(".SH EXIT STATUS")
		for _, e := range cli.Codes {
			line(".TP\n.B %s\n%s", fmt.Sprint(e.Code), e.Meaning)
		}
		line(".SH SIGNALS")
		prose(rootEpilogue)
	}
	line(".SH SEE ALSO")
	for _, c := range cmd.Root().Commands() {
		if c != cmd && c.IsAvailableCommand() && !c.Hidden {
			line(`.BR %s (1)`, "crawl-"+c.Name())
		}
	}
	return b.String()
}

// EscapeRoff escapes text for roff: backslashes, hyphens, and lines that would be requests. A plain hyphen would become
// another character, and who copies --flag from a manual needs two minus signs.
func EscapeRoff(s string) string {
	lines := strings.Split(strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(s), "\n")
	for i, l := range lines {
		if strings.HasPrefix(l, ".") || strings.HasPrefix(l, "'") {
			lines[i] = `\&` + l
		}
	}
	return strings.Join(lines, "\n")
}
