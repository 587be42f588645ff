package flags

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/internal/assembly"
	"github.com/treadlight/crawl/internal/config"
	"github.com/treadlight/crawl/internal/document/spelling"
	"github.com/treadlight/crawl/internal/records/sink"
)

// briefIntro is the beginning of `crawl --help`, which fits one screen.
const briefIntro = `Crawl visits sites as fast as each host tolerates and no faster. It learns the
rate, obeys robots.txt and every Retry-After, and writes one record per URL.

Usage: crawl [flags] URL...   or   crawl COMMAND [flags]

Examples:
  crawl demo                                      see it at work, offline
  crawl -o pages.csv https://example.com/         a table of all its pages
  crawl -d 3 -i seeds.txt -o pages.jsonl          many sites, three links deep
  crawl -o site/ https://example.com/             resumed by: crawl resume site

`

const rootEpilogue = `The first Ctrl-C or SIGTERM finishes what is under way, for as long as grace
says, the second gives it up, a third ends the crawl at once. SIGUSR1 tells how
the crawl goes, and puts its state on the disk; SIGHUP has it read the file of
--config again. Every setting, those without a flag too, can stand in a file or
in a CRAWL_* variable: see 'crawl config --reference'.`

// jobs says in the short help what the less obvious commands are for.
var jobs = map[string]string{
	"audit": "(what is wrong with a site)", "mirror": "(a copy to read offline)", "plan": "(look first)", "read": "(pages as Markdown)",
	"watch": "(what changes)", "doctor": "(what is missing)",
}

// briefFlag is a flag in the short help with its text, which is shorter than that of the full help. If the text is
// empty, the name is the title of a group.
type briefFlag struct{ Name, Text string }

// BriefFlags returns the flags that most people use, in groups with titles.
func BriefFlags() []briefFlag {
	return []briefFlag{
		{"What to crawl", ""},
		{"input-file", "read seed URLs from a file; - is standard input"},
		{"depth", "links away from a seed (default: no limit)"},
		{"scope", "host (default), domain, prefix (its directory) or any"},
		{"include", "follow only URLs that match"},
		{"exclude", "leave out URLs that match"},
		{"max-pages", "end after so many pages"},
		{"max-time", "end after so long, such as 30m"},
		{"How fast", ""},
		{"max-rate", "most requests per second to a host (default 10)"},
		{"min-delay", "least time between two requests to a host"},
		{"concurrency", "requests in flight over all hosts (default 64)"},
		{"Requests", ""},
		{"contact", "URL or mail address for the operators of sites"},
		{"header", "send a header, \"Name: value\""},
		{"auth", "HOST=user:password that a browser would ask for"},
		{"login", "log in by a form; its page in crawl docs says how"},
		{"Output and messages", ""},
		{"output", "write here: " + sink.EndingList(", ") + " or a DIR/"},
		{"field", "take a value out of pages: NAME=css:SELECTOR"},
		{"record", "also text, main-text, metadata or body"},
		{"listen", "dashboard and API, 8091 for instance"},
		{"config", "read settings from a YAML or JSON file"},
		{"quiet", "show errors only"},
	}
}

// Show prints the help of a command at the width that suits w. Its error is that of a failed write to standard output.
// On a terminal 'crawl' alone shows what to do first, which the whole help would move off the screen.
func Show(w io.Writer, cmd *cobra.Command) error {
	if !cmd.HasParent() && cmd.CalledAs() != "" && cmd.Flags().NFlag() == 0 && cli.IsTerminal(w) {
		_, err := io.WriteString(w, firstWords)
		return cli.Output(err)
	}
	return cli.Output(Write(w, cmd, Columns(w)))
}

const firstWords = briefIntro + `Before a crawl:
  crawl doctor https://example.com/               what would keep it from its work
  crawl plan https://example.com/                 how large the site is, how long it takes

All flags and commands: crawl --help. Two dozen jobs: crawl docs
`

// Columns returns the width of help for w: that of the terminal, but at least 40 and at most 100.
func Columns(w io.Writer) int { return min(max(cli.WidthOf(w), 40), 100) }

// Write writes the help of a command to w, in lines of at most columns: one screen for the program itself, the full
// help for its commands.
func Write(w io.Writer, cmd *cobra.Command, columns int) error {
	if cmd.HasParent() {
		return WriteFull(w, cmd, columns)
	}
	var b strings.Builder
	b.WriteString(briefIntro)
	for _, f := range BriefFlags() {
		if f.Text == "" {
			b.WriteString(f.Name + ":\n")
		} else {
			cli.Hanging(&b, FlagSpelling(cmd.Flags().Lookup(f.Name)), f.Text, 26, columns)
		}
	}
	var names []string
	for _, c := range shown(cmd) {
		names = append(names, strings.TrimSpace(c.Name()+" "+jobs[c.Name()]))
	}
	b.WriteString(strings.Join(cli.Wrap("Commands: "+strings.Join(names, ", "), columns-2), "\n  ") + "\n")
	b.WriteString("More: crawl help COMMAND, crawl --help-all; two dozen jobs: crawl docs\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// shown returns the commands that the help lists.
func shown(cmd *cobra.Command) []*cobra.Command {
	return slices.DeleteFunc(slices.Clone(cmd.Commands()), func(c *cobra.Command) bool {
		return !c.IsAvailableCommand() && c.Name() != "help"
	})
}

// WriteFull writes the full help of a command. For the program itself that is every flag, the table of the exit codes,
// and what signals do.
func WriteFull(w io.Writer, cmd *cobra.Command, columns int) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\nUsage:\n  %s\n", About(cmd), cmd.UseLine())
	if !cmd.HasParent() {
		fmt.Fprintf(&b, "  %s COMMAND [flags]\n", cmd.Name())
	}
	if cmd.Example != "" {
		fmt.Fprintf(&b, "\nExamples:\n%s\n", cmd.Example)
	}
	if cmd.HasAvailableSubCommands() {
		b.WriteString("\nCommands:\n")
		for _, c := range shown(cmd) {
			fmt.Fprintf(&b, "  %-12s%s\n", c.Name(), c.Short)
		}
	}
	margin, groups := 0, grouped(cmd)
	for _, fs := range groups {
		for _, f := range fs {
			margin = max(margin, len(FlagSpelling(f))+2)
		}
	}
	for _, g := range Groups {
		if len(groups[g]) > 0 {
			fmt.Fprintf(&b, "\n%s:\n", g)
		}
		for _, f := range groups[g] {
			cli.Hanging(&b, FlagSpelling(f), Describe(f), margin, columns)
		}
	}
	if !cmd.HasParent() {
		b.WriteString("\nExit codes:\n")
		for _, e := range cli.Codes {
			cli.Hanging(&b, fmt.Sprintf("  %-4d", e.Code), e.Meaning, 6, columns)
		}
		b.WriteString("\n" + rootEpilogue + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// About returns the description of a command, or a sentence of its title if it has none.
func About(cmd *cobra.Command) string {
	return cmp.Or(cmd.Long, cmd.Short+".")
}

// grouped returns the flags of a command that are not hidden, by group. It puts --help among the messages if the
// command has other flags and none of its own.
func grouped(cmd *cobra.Command) map[string][]*pflag.Flag {
	set, groups := cmd.LocalFlags(), make(map[string][]*pflag.Flag)
	set.SortFlags = false
	set.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		g := GroupOf(f)
		if f.Name == "help" && len(groups) > 0 && len(groups[GroupOwn]) == 0 {
			g = GroupMessages
		}
		groups[g] = append(groups[g], f)
	})
	return groups
}

// FlagSpelling returns a flag as the help lists it: its short and long form and the name of its value.
func FlagSpelling(f *pflag.Flag) string {
	s := "      --" + f.Name
	if f.Shorthand != "" {
		s = fmt.Sprintf("  -%s, --%s", f.Shorthand, f.Name)
	}
	switch name := valueName(f); {
	case name != "" && f.NoOptDefVal != "":
		s += "[=" + name + "]"
	case name != "":
		s += " " + name
	}
	return s
}

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

// Describe returns the text of a flag and its default, unless the default is empty, zero or false.
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

// wanted says how a value of each of pflag's types looks. The flags of the settings describe their own values.
var wanted = map[string]string{
	"bool": "true or false", "duration": "a duration with its unit, such as 1m30s", "float64": "a number",
	"int": "a whole number", "uint64": "a whole number from 0 up",
}

// maxOwners is for how many commands an error names them as those that have a flag.
const maxOwners = 3

// ownersOf returns the commands that have a flag of their own with that name, quoted; that of a setting is the
// program's.
func ownersOf(root *cobra.Command, name string) (of []string) {
	for _, c := range append([]*cobra.Command{root}, root.Commands()...) {
		f := c.Flags().Lookup(name)
		if f == nil || c.Hidden {
			continue
		}
		if _, setting := f.Value.(*flagValue); c == root || !setting {
			of = append(of, strconv.Quote(c.CommandPath()))
		}
	}
	return of
}

// FlagError turns an error of pflag about a flag into one in the words of this program, with a guess at a mistyped
// flag.
func FlagError(cmd *cobra.Command, err error) error {
	if e, ok := errors.AsType[*pflag.NotExistError](err); ok {
		name, dashes := e.GetSpecifiedName(), "--"
		if e.GetSpecifiedShortnames() != "" {
			dashes = "-"
		}
		if says := config.RetiredFlag(name); says != "" {
			return cli.Usagef("%s%s %s", dashes, name, says)
		}
		spellings := []string{name}
		if letters := e.GetSpecifiedShortnames(); letters != "" {
			spellings = []string{"-" + letters, "-" + name}
		}
		if known, says := instead(cmd, spellings...); known != "" {
			return cli.Usagef("%s%s is not a flag of %q%s", dashes, strings.TrimPrefix(known, "-"), cmd.CommandPath(), says)
		}
		if name == "o" || name == "output" {
			return cli.Usagef("%s%s is not a flag of %q, which writes to standard output: end the command with > FILE", dashes, name, cmd.CommandPath())
		}
		if of := ownersOf(cmd.Root(), name); dashes == "--" && 0 < len(of) && len(of) <= maxOwners {
			return cli.Usagef("--%s is a flag of %s, not of %q", name, cli.OneOf(of), cmd.CommandPath())
		}
		var names []string // hidden flags too, since they work
		if dashes == "--" {
			cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		}
		near := spelling.Nearest(name, names)
		if near != "" {
			near = "--" + near
		}
		return cli.Usagef("%s%s is not a flag of %q%s", dashes, name, cmd.CommandPath(), cli.Meant(near))
	}
	if e, ok := errors.AsType[*pflag.ValueRequiredError](err); ok {
		f := e.GetFlag()
		return cli.Usagef("--%s needs a value: --%s %s", f.Name, f.Name, valueName(f))
	}
	if e, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		want, known := wanted[e.GetFlag().Value.Type()]
		if !known {
			want = "another value"
		}
		return cli.Usagef("--%s %q: give %s", e.GetFlag().Name, e.GetValue(), want)
	}
	return cli.Usage(err)
}

// fileName reports whether a name without dots before its ending is hardly that of a host: it ends as files do that a
// crawl reads or writes. Of their endings .md is a top-level domain, too.
func fileName(name string) bool {
	ending := path.Ext(name)
	known := ending == ".xml" || ending == ".md" || sink.ByEnding(ending).Format != ""
	return known && !strings.ContainsAny(name, ":/?") && !strings.Contains(strings.TrimSuffix(name, ending), ".")
}

// CheckSeeds returns a usage error for an argument that is no URL a crawl can begin with, and for one that would be taken
// for the name of a host but is a file, or looks like one, or like a mistyped command.
func CheckSeeds(cmd *cobra.Command, args []string) error {
	for _, a := range args {
		if a == "-" {
			return cli.Usagef("- is no URL: --input-file - reads URLs from standard input")
		}
		if info, err := os.Stat(a); err == nil && info.Mode().IsRegular() { // reading from a pipe would wait
			if kind := cli.FileKind(a); kind != "" {
				return cli.Usagef("%s is a file here, and no URL: %s", a, kind)
			}
		}
		if fileName(a) {
			return cli.Usagef("%s is no URL: an output goes to -o, and --input-file reads a file of seeds; a host of that name is https://%[1]s/", a)
		}
		if !strings.ContainsAny(a, ".:/") && a != "localhost" {
			return cli.Usagef("%q is neither a URL nor a command%s", a, cmp.Or(nearCommand(cmd.Root(), a), "; a URL is such as https://example.com/"))
		}
	}
	if err := assembly.Check(args...); err != nil {
		return cli.Usage(err)
	}
	return nil
}

// NearestCommand returns the command with the name most like name, or "" if none is similar.
func NearestCommand(root *cobra.Command, name string) string {
	var names []string
	for _, c := range root.Commands() {
		if !c.Hidden {
			names = append(names, c.Name())
		}
	}
	return spelling.Nearest(name, names)
}
