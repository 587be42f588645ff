package help

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/treadlight/crawl/cmd/crawl/internal/build"
	"github.com/treadlight/crawl/cmd/crawl/internal/exit"
	"github.com/treadlight/crawl/cmd/crawl/internal/flags"
)

// roff is a manual page in the making, in the macros of man(7).
type roff struct{ strings.Builder }

// Manual is the page of a command: its help, and for the program itself its files and
// variables. It has no date, so that the same version is the same file.
func Manual(cmd *cobra.Command) string {
	var r roff
	name := strings.ReplaceAll(cmd.CommandPath(), " ", "-")
	r.line(`.TH "%s" "1" "" "crawl %s" "Treadlight"`, EscapeRoff(strings.ToUpper(name)), EscapeRoff(build.Version()))
	r.section("NAME")
	r.line(`%s \- %s`, EscapeRoff(name), EscapeRoff(firstLower(cmd.Short)))
	r.section("SYNOPSIS")
	r.line(`.B %s`, EscapeRoff(cmd.UseLine()))
	if !cmd.HasParent() {
		r.line(".br\n.B %s", EscapeRoff(cmd.Name()+" COMMAND [flags]"))
	}
	if cmd.Long != "" {
		r.section("DESCRIPTION")
		r.paragraphs(cmd.Long)
	}
	r.commands(cmd)
	r.flags(cmd.LocalFlags())
	if cmd.Example != "" {
		r.section("EXAMPLES")
		r.line(".nf\n%s\n.fi", EscapeRoff(cmd.Example))
	}
	if !cmd.HasParent() {
		r.section("ENVIRONMENT")
		r.paragraphs("Every setting can be given as a variable: that of a.b is CRAWL_A_B. 'crawl config --reference' lists them with their units, ranges and defaults.")
		r.section("EXIT STATUS")
		for _, e := range exit.Codes {
			r.line(".TP\n.B %d\n%s", e.Code, EscapeRoff(e.Meaning))
		}
		r.section("SIGNALS")
		r.paragraphs(rootEpilogue)
	}
	r.section("SEE ALSO")
	for _, c := range cmd.Root().Commands() {
		if c != cmd && c.IsAvailableCommand() && !c.Hidden {
			r.line(`.BR %s (1)`, EscapeRoff("crawl-"+c.Name()))
		}
	}
	return r.String()
}

func (r *roff) line(format string, args ...any) { _, _ = fmt.Fprintf(r, format+"\n", args...) }

func (r *roff) section(name string) { r.line(".SH %s", name) }

// paragraphs is prose, whose lines are filled anew; what is indented stays as it is.
func (r *roff) paragraphs(text string) {
	for block := range strings.SplitSeq(text, "\n\n") {
		if strings.HasPrefix(block, " ") || strings.Contains(block, "\n ") {
			r.line(".PP\n.nf\n%s\n.fi", EscapeRoff(block))
			continue
		}
		r.line(".PP\n%s", EscapeRoff(block))
	}
}

func (r *roff) commands(cmd *cobra.Command) {
	if !cmd.HasAvailableSubCommands() {
		return
	}
	r.section("COMMANDS")
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			r.line(".TP\n.B %s\n%s", EscapeRoff(c.Name()), EscapeRoff(c.Short))
		}
	}
}

// flags are listed by group, as in the help.
func (r *roff) flags(set *pflag.FlagSet) {
	byGroup := make(map[string][]*pflag.Flag)
	set.SortFlags = false
	set.VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			byGroup[flags.GroupOf(f)] = append(byGroup[flags.GroupOf(f)], f)
		}
	})
	if len(byGroup) == 0 {
		return
	}
	r.section("OPTIONS")
	for _, g := range flags.Groups() {
		if len(byGroup[g]) == 0 {
			continue
		}
		if g != flags.GroupOwn {
			r.line(".SS %s", EscapeRoff(g))
		}
		for _, f := range byGroup[g] {
			r.line(".TP\n.B %s\n%s", EscapeRoff(strings.TrimSpace(FlagSpelling(f))), EscapeRoff(Describe(f)))
		}
	}
}

// EscapeRoff makes text of what may hold a request, an escape or a hyphen that must stay
// one: who copies --flag from a manual wants two minus signs.
func EscapeRoff(s string) string {
	s = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(s)
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		if strings.HasPrefix(l, ".") || strings.HasPrefix(l, "'") {
			lines[i] = `\&` + l
		}
	}
	return strings.Join(lines, "\n")
}

// firstLower begins a sentence as the NAME section does, which is one line of many.
func firstLower(s string) string {
	if s == "" {
		return s
	}
	return strings.ToLower(s[:1]) + s[1:]
}
