package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// The groups of flags, in the order of the help: first what a crawl is about, then how
// it goes about it.
const (
	groupSeeds    = "Seeds and scope"
	groupPolite   = "Politeness"
	groupFetch    = "Fetching"
	groupAccess   = "Access and network"
	groupOutput   = "Output"
	groupFleet    = "Several processes"
	groupMessages = "Messages and settings"
	groupOwn      = "Flags" // of a verb
)

// groupKey is the annotation that carries a flag's group.
const groupKey = "treadlight_group"

// groups is the order of the help. A verb's own flags come first: they are why its help
// is read.
func groups() []string {
	return []string{groupOwn, groupSeeds, groupPolite, groupFetch, groupAccess, groupOutput, groupFleet, groupMessages}
}

// groupOf is where the flag of a setting belongs. A setting that is added to a section
// finds its place by itself.
func groupOf(path string) string {
	section, _, _ := strings.Cut(path, ".")
	switch section {
	case "ratelimit", "robots", "concurrency", "per_host_max", "max_blocked":
		return groupPolite
	case "fetch":
		return groupFetch
	case "access":
		return groupAccess
	case "extract", "output", "warc", "state", "stats", "listen", "traces":
		return groupOutput
	case "fleet":
		return groupFleet
	case "log", "": // --set
		return groupMessages
	}
	return groupSeeds
}

// setGroup puts a flag into a group of the help.
func setGroup(f *pflag.Flag, group string) {
	f.Annotations = map[string][]string{groupKey: {group}}
}

// groupOfFlag is the group a flag was put into; a verb's own flags are in none.
func groupOfFlag(f *pflag.Flag) string {
	if g := f.Annotations[groupKey]; len(g) == 1 {
		return g[0]
	}
	return groupOwn
}

// showHelp prints the help of a command, in lines that w has room for.
func showHelp(w io.Writer, cmd *cobra.Command) error {
	return outputError(help(w, cmd, helpColumns(w)))
}

// help writes the help of a command to w, lines no longer than columns: of the program itself
// one screen, of a verb all there is.
func help(w io.Writer, cmd *cobra.Command, columns int) error {
	if !cmd.HasParent() {
		return briefHelp(w, cmd, columns)
	}
	return fullHelp(w, cmd, columns)
}

// fullHelp is all that the program says about a command: of itself each flag, what signals do,
// and the table of the exit codes.
func fullHelp(w io.Writer, cmd *cobra.Command, columns int) error {
	var b strings.Builder
	text := cmd.Long
	if text == "" {
		text = cmd.Short + "."
	}
	fmt.Fprintf(&b, "%s\n\nUsage:\n  %s\n", text, cmd.UseLine())
	if !cmd.HasParent() {
		fmt.Fprintf(&b, "  %s COMMAND [flags]\n", cmd.Name())
	}
	if cmd.Example != "" {
		fmt.Fprintf(&b, "\nExamples:\n%s\n", cmd.Example)
	}
	writeCommands(&b, cmd)
	writeFlags(&b, cmd.LocalFlags(), columns)
	if !cmd.HasParent() {
		b.WriteString("\n" + allExits(columns) + "\n" + rootEpilogue + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// writeCommands lists the verbs by name.
func writeCommands(b *strings.Builder, cmd *cobra.Command) {
	if !cmd.HasAvailableSubCommands() {
		return
	}
	b.WriteString("\nCommands:\n")
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() || c.Name() == "help" {
			fmt.Fprintf(b, "  %-12s%s\n", c.Name(), c.Short)
		}
	}
}

// writeFlags lists the flags by group, with the texts of all groups at one margin.
func writeFlags(b *strings.Builder, flags *pflag.FlagSet, columns int) {
	byGroup := make(map[string][]*pflag.Flag)
	margin := 0
	flags.SortFlags = false
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		g := groupOfFlag(f)
		if f.Name == "help" && len(byGroup) > 0 && len(byGroup[groupOwn]) == 0 {
			g = groupMessages // where there is no group for a verb's own
		}
		byGroup[g] = append(byGroup[g], f)
		margin = max(margin, len(flagSpelling(f))+2)
	})
	for _, g := range groups() {
		fs := byGroup[g]
		if len(fs) == 0 {
			continue
		}
		fmt.Fprintf(b, "\n%s:\n", g)
		for _, f := range fs {
			lines := wrap(describe(f), max(columns-margin, 24)) // narrower than that, words stand alone
			fmt.Fprintf(b, "%-*s%s\n", margin, flagSpelling(f), lines[0])
			for _, line := range lines[1:] {
				fmt.Fprintf(b, "%*s%s\n", margin, "", line)
			}
		}
	}
}

// flagSpelling is how a flag is written.
func flagSpelling(f *pflag.Flag) string {
	s := "      --" + f.Name
	if f.Shorthand != "" {
		s = fmt.Sprintf("  -%s, --%s", f.Shorthand, f.Name)
	}
	if name := valueName(f); name != "" {
		s += " " + name
	}
	return s
}

// valueName is what stands for a flag's value; empty for a switch.
func valueName(f *pflag.Flag) string {
	name, _ := pflag.UnquoteUsage(f)
	switch name {
	case "int", "uint", "float":
		name = "n"
	case "duration":
		name = "time"
	}
	return strings.ToUpper(name)
}

// describe is the sentence about a flag and its default, if it is not nothing.
func describe(f *pflag.Flag) string {
	_, text := pflag.UnquoteUsage(f)
	if f.Name == "help" {
		return "show this help"
	}
	if slices.Contains([]string{"", "0", "0s", "false", "[]"}, f.DefValue) {
		return text
	}
	return fmt.Sprintf("%s (default %s)", text, f.DefValue)
}

// wrap breaks text into lines of at most so many bytes; a longer word stays whole.
func wrap(text string, columns int) []string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		switch {
		case line == "":
			line = word
		case len(line)+1+len(word) <= columns:
			line += " " + word
		default:
			lines = append(lines, line)
			line = word
		}
	}
	return append(lines, line)
}

// helpColumns is the width to write help for: that of the terminal, within what is
// pleasant to read.
func helpColumns(w io.Writer) int {
	const widest = 100 // beyond that, eyes lose the line
	return min(max(widthOf(w), 40), widest)
}

// helpCommand is `crawl help [COMMAND]`. Unlike cobra's own it knows a wrong command
// for a mistake.
func helpCommand(s streams) *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Show the help of a command",
		Example: `  crawl help          the same as crawl --help
  crawl help config   the same as crawl config --help`,
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			about, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return usage(fmt.Errorf("there is no command %q%s", strings.Join(args, " "), meant(nearestCommand(cmd.Root(), args[0]))))
			}
			about.InitDefaultHelpFlag()
			return showHelp(s.out, about)
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			var names []string
			for _, c := range cmd.Root().Commands() {
				names = append(names, c.Name())
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
	}
}
