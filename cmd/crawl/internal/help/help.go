// Package help writes the help and the manual pages of all commands, and says what is wrong with
// a command line.
package help

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/treadlight/crawl/cmd/crawl/internal/exit"
	"github.com/treadlight/crawl/cmd/crawl/internal/flags"
	"github.com/treadlight/crawl/cmd/crawl/internal/human"
	"github.com/treadlight/crawl/cmd/crawl/internal/terminal"
)

// Show prints the help of a command, in lines that w has room for.
func Show(w io.Writer, cmd *cobra.Command) error {
	return exit.Output(Write(w, cmd, Columns(w)))
}

// Write writes the help of a command to w, lines no longer than columns: of the program itself
// one screen, of a verb all there is.
func Write(w io.Writer, cmd *cobra.Command, columns int) error {
	if !cmd.HasParent() {
		return briefHelp(w, cmd, columns)
	}
	return WriteFull(w, cmd, columns)
}

// WriteFull is all that the program says about a command: of itself each flag, what signals do,
// and the table of the exit codes.
func WriteFull(w io.Writer, cmd *cobra.Command, columns int) error {
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
		b.WriteString("\n" + exit.Table(columns) + "\n" + rootEpilogue + "\n")
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
func writeFlags(b *strings.Builder, set *pflag.FlagSet, columns int) {
	byGroup := make(map[string][]*pflag.Flag)
	margin := 0
	set.SortFlags = false
	set.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		g := flags.GroupOf(f)
		if f.Name == "help" && len(byGroup) > 0 && len(byGroup[flags.GroupOwn]) == 0 {
			g = flags.GroupMessages // where there is no group for a verb's own
		}
		byGroup[g] = append(byGroup[g], f)
		margin = max(margin, len(FlagSpelling(f))+2)
	})
	for _, g := range flags.Groups() {
		fs := byGroup[g]
		if len(fs) == 0 {
			continue
		}
		fmt.Fprintf(b, "\n%s:\n", g)
		for _, f := range fs {
			lines := human.Wrap(Describe(f), max(columns-margin, 24)) // narrower than that, words stand alone
			fmt.Fprintf(b, "%-*s%s\n", margin, FlagSpelling(f), lines[0])
			for _, line := range lines[1:] {
				fmt.Fprintf(b, "%*s%s\n", margin, "", line)
			}
		}
	}
}

// FlagSpelling is how a flag is written.
func FlagSpelling(f *pflag.Flag) string {
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

// Describe is the sentence about a flag and its default, if it is not nothing.
func Describe(f *pflag.Flag) string {
	_, text := pflag.UnquoteUsage(f)
	if f.Name == "help" {
		return "show this help"
	}
	if slices.Contains([]string{"", "0", "0s", "false", "[]"}, f.DefValue) {
		return text
	}
	return fmt.Sprintf("%s (default %s)", text, f.DefValue)
}

// Columns is the width to write help for: that of the terminal, within what is
// pleasant to read.
func Columns(w io.Writer) int {
	const widest = 100 // beyond that, eyes lose the line
	return min(max(terminal.WidthOf(w), 40), widest)
}

const rootEpilogue = `The first Ctrl-C or SIGTERM finishes what is under way, for as long as grace
says, the second gives it up, a third ends the crawl at once. SIGUSR1 tells how
the crawl goes, and puts its state on the disk; SIGHUP has it read the file of
--config again. Every setting, those without a flag too, can stand in a file or
in a CRAWL_* variable: see 'crawl config --reference'.`
