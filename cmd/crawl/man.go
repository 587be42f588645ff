package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// manCommand writes manual pages, for those who package the program. It is not in the help,
// which says the same.
func manCommand(s streams) *cobra.Command {
	return &cobra.Command{
		Use:                   "man DIR",
		Short:                 "Write manual pages into a directory",
		Example:               "  crawl man /usr/local/share/man/man1",
		Hidden:                true,
		DisableFlagsInUseLine: true,
		Args:                  oneDir("man"),
		ValidArgsFunction:     completeDirs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o777); err != nil { // less what the user's mask forbids
				return ioError(err)
			}
			root := cmd.Root()
			names := []string{}
			for _, c := range append([]*cobra.Command{root}, root.Commands()...) {
				if c.Hidden || !c.IsAvailableCommand() && c != root {
					continue
				}
				name := strings.ReplaceAll(c.CommandPath(), " ", "-") + ".1"
				if err := os.WriteFile(filepath.Join(args[0], name), []byte(manual(c)), 0o666); err != nil {
					return ioError(err)
				}
				names = append(names, name)
			}
			_, err := fmt.Fprintln(s.out, strings.Join(names, "\n"))
			return outputError(err)
		},
	}
}

// roff is a manual page in the making, in the macros of man(7).
type roff struct{ strings.Builder }

// manual is the page of a command: its help, and for the program itself its files and
// variables. It has no date, so that the same version is the same file.
func manual(cmd *cobra.Command) string {
	var r roff
	name := strings.ReplaceAll(cmd.CommandPath(), " ", "-")
	r.line(`.TH "%s" "1" "" "crawl %s" "Treadlight"`, escapeRoff(strings.ToUpper(name)), escapeRoff(version()))
	r.section("NAME")
	r.line(`%s \- %s`, escapeRoff(name), escapeRoff(firstLower(cmd.Short)))
	r.section("SYNOPSIS")
	r.line(`.B %s`, escapeRoff(cmd.UseLine()))
	if !cmd.HasParent() {
		r.line(".br\n.B %s", escapeRoff(cmd.Name()+" COMMAND [flags]"))
	}
	if cmd.Long != "" {
		r.section("DESCRIPTION")
		r.paragraphs(cmd.Long)
	}
	r.commands(cmd)
	r.flags(cmd.LocalFlags())
	if cmd.Example != "" {
		r.section("EXAMPLES")
		r.line(".nf\n%s\n.fi", escapeRoff(cmd.Example))
	}
	if !cmd.HasParent() {
		r.section("ENVIRONMENT")
		r.paragraphs("Every setting can be given as a variable: that of a.b is CRAWL_A_B. 'crawl config --reference' lists them with their units, ranges and defaults.")
		r.section("EXIT STATUS")
		for _, e := range exits {
			r.line(".TP\n.B %d\n%s", e.code, escapeRoff(e.meaning))
		}
		r.section("SIGNALS")
		r.paragraphs(rootEpilogue)
	}
	r.section("SEE ALSO")
	for _, c := range cmd.Root().Commands() {
		if c != cmd && c.IsAvailableCommand() && !c.Hidden {
			r.line(`.BR %s (1)`, escapeRoff("crawl-"+c.Name()))
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
			r.line(".PP\n.nf\n%s\n.fi", escapeRoff(block))
			continue
		}
		r.line(".PP\n%s", escapeRoff(block))
	}
}

func (r *roff) commands(cmd *cobra.Command) {
	if !cmd.HasAvailableSubCommands() {
		return
	}
	r.section("COMMANDS")
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			r.line(".TP\n.B %s\n%s", escapeRoff(c.Name()), escapeRoff(c.Short))
		}
	}
}

// flags are listed by group, as in the help.
func (r *roff) flags(flags *pflag.FlagSet) {
	byGroup := make(map[string][]*pflag.Flag)
	flags.SortFlags = false
	flags.VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			byGroup[groupOfFlag(f)] = append(byGroup[groupOfFlag(f)], f)
		}
	})
	if len(byGroup) == 0 {
		return
	}
	r.section("OPTIONS")
	for _, g := range groups() {
		if len(byGroup[g]) == 0 {
			continue
		}
		if g != groupOwn {
			r.line(".SS %s", escapeRoff(g))
		}
		for _, f := range byGroup[g] {
			r.line(".TP\n.B %s\n%s", escapeRoff(strings.TrimSpace(flagSpelling(f))), escapeRoff(describe(f)))
		}
	}
}

// escapeRoff makes text of what may hold a request, an escape or a hyphen that must stay
// one: who copies --flag from a manual wants two minus signs.
func escapeRoff(s string) string {
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
