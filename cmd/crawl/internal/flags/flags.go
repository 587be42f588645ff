// Package flags declares the flags of the settings, which several commands have; it loads the settings from file,
// environment and flags, and writes the help and the manual pages of all commands.
package flags

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/internal/config"
)

// Settings collects the flags of the settings that a command line gives, and the file that --config names.
type Settings struct {
	File  string
	Given []config.FlagValue // in the order of the command line
	args  func() []string
}

// Add declares the flags of all settings that have one and for which keep returns true. They belong to cmd alone and
// not to its subcommands, so that a flag without effect on a subcommand is an error there. With hide, the help of cmd
// does not list them; that of crawl does.
func Add(cmd *cobra.Command, hide bool, keep func(*config.Flag) bool) *Settings {
	flags := cmd.Flags()
	s := &Settings{args: flags.Args}
	flags.SortFlags = false // the table's order is by importance
	all := config.Flags()
	for i := range all {
		f := &all[i] // each command has some hundred of them, and so shares them
		if !keep(f) {
			continue
		}
		pf := flags.VarPF(&flagValue{flag: f, to: s}, f.Name, f.Shorthand, f.Help)
		pf.Hidden = f.Hidden || hide
		if f.Switch {
			pf.NoOptDefVal = "true"
		}
		complete(cmd, f)
	}
	return s
}

// AddAll declares the flags of all settings and --config.
func AddAll(cmd *cobra.Command, hide bool) *Settings {
	s := Add(cmd, hide, func(*config.Flag) bool { return true })
	cmd.Flags().StringVar(&s.File, "config", "", "read settings from this YAML or JSON `file`; flags are stronger")
	return s
}

// CheckSwallowed returns an error if a flag of args has another flag of cmd as its value, as --warc has in
// "--warc -o a.jsonl". Such a value can be given behind "=".
func CheckSwallowed(cmd *cobra.Command, args []string) error {
	set := cmd.Flags()
	for i := 0; i+1 < len(args) && args[i] != "--"; i++ {
		f := flagOf(set, args[i])
		if f == nil || f.NoOptDefVal != "" {
			continue // it has no value of its own
		}
		if i++; flagOf(set, strings.SplitN(args[i], "=", 2)[0]) != nil {
			return cli.Usagef("--%[1]s needs a %[2]s, and was followed by the flag %[3]s; a value of that name is --%[1]s=%[3]s", f.Name, valueName(f), args[i])
		}
	}
	return nil
}

// flagOf returns the flag that arg spells in full, without a value; nil if there is none.
func flagOf(set *pflag.FlagSet, arg string) *pflag.Flag {
	if name, long := strings.CutPrefix(arg, "--"); long {
		return set.Lookup(name)
	}
	if name, short := strings.CutPrefix(arg, "-"); short && len(name) == 1 {
		return set.ShorthandLookup(name)
	}
	return nil
}

// complete has a shell complete the words of a choice, or the names of files or directories if the flag takes one;
// otherwise nothing.
func complete(cmd *cobra.Command, f *config.Flag) {
	words, directive := []string(nil), cobra.ShellCompDirectiveNoFileComp
	switch {
	case !f.Switch && f.Words != nil:
		words = f.Words
	case f.Arg == "file":
		directive = cobra.ShellCompDirectiveDefault
	case f.Arg == "dir":
		directive = cobra.ShellCompDirectiveFilterDirs
	}
	// The only error is a flag that does not exist or has a completion already.
	_ = cmd.RegisterFlagCompletionFunc(f.Name, cobra.FixedCompletions(words, directive))
}

// Load loads the settings: the defaults, then the file, the environment and the flags, of which the later take
// precedence.
func (s *Settings) Load(env []string) (*config.Loaded, error) {
	return Load(config.Sources{File: s.FileIn(env), Env: env, Flags: s.Given, Seeds: s.args()})
}

// Again returns a function that calls load again during a crawl; nil if file is empty, which means that the
// configuration has no file. The function returns an error for a pipe, which has been read to its end, and for an empty
// file, which an editor may be about to write: both would reset the user's settings in the middle of a crawl.
func Again(file string, load func() (*config.Loaded, error)) func() (*config.Loaded, error) {
	if file == "" {
		return nil
	}
	return func() (*config.Loaded, error) {
		info, err := os.Stat(file)
		switch {
		case err != nil: // load reports it
		case !info.Mode().IsRegular():
			return nil, fmt.Errorf("%s is no regular file and can be read only once: give --config a file to change settings later", file)
		case info.Size() == 0:
			return nil, fmt.Errorf("%s is empty: to go back to the defaults write {} into it", file)
		}
		return load()
	}
}

// FileIn returns the file of the configuration, from --config or else CRAWL_CONFIG in env; "" means none.
func (s *Settings) FileIn(env []string) string {
	return cmp.Or(s.File, cli.LookupEnv(env, "CRAWL_CONFIG"))
}

// Load loads the settings from the given sources. Its errors have the exit codes that [Wrong] gives them.
func Load(from config.Sources) (*config.Loaded, error) {
	loaded, err := config.Load(from)
	if err != nil {
		return nil, Wrong(err)
	}
	return loaded, nil
}

// Wrong returns err with its exit code: its own if it has one, that of input and output if a file cannot be read, or else
// that of usage.
func Wrong(err error) error {
	switch {
	case cli.CodeOf(err) != cli.CodeInternal:
		return err
	case cli.Has[*fs.PathError](err):
		return cli.IO(err)
	}
	return cli.Usage(err)
}

// flagValue records each use of a flag as text. The configuration parses them all together, so that one error can list
// everything that is wrong.
type flagValue struct {
	flag *config.Flag
	to   *Settings
}

func (v *flagValue) Set(s string) error {
	v.to.Given = append(v.to.Given, config.FlagValue{Name: v.flag.Name, Value: s})
	return nil
}

// String returns the default, for the help. A switch has none, as all switches that the help lists are off by default.
func (v *flagValue) String() string {
	if v.flag.Switch {
		return ""
	}
	return v.flag.Default
}

func (v *flagValue) Type() string {
	if v.flag.Switch {
		return "bool"
	}
	return v.flag.Arg
}

// DurationVar declares a flag for a time of a verb's own, as the settings write it.
func DurationVar(set *pflag.FlagSet, to *time.Duration, name string, value time.Duration, usage string) {
	*to = value
	set.Var((*duration)(to), name, usage)
}

type duration time.Duration

func (d *duration) Set(s string) error {
	v, err := config.ParseDuration(s)
	*d = duration(v)
	return err
}

func (d *duration) String() string { return time.Duration(*d).String() }
func (*duration) Type() string     { return "duration" }

// The groups of flags in the help.
const (
	GroupOwn      = "Flags"
	GroupSeeds    = "Seeds and scope"
	GroupPolite   = "Politeness"
	GroupFetch    = "Fetching"
	GroupAccess   = "Access and network"
	groupOutput   = "Output"
	groupFleet    = "Several processes"
	GroupMessages = "Messages and settings"
)

// Groups lists the groups in the order of the help: first a command's own flags, then what a crawl is about, then how
// it works.
var Groups = []string{GroupOwn, GroupSeeds, GroupPolite, GroupFetch, GroupAccess, groupOutput, groupFleet, GroupMessages}

const groupKey = "treadlight_group"

// GroupOfSetting returns the group of the flag of a setting, by the section of its path.
func GroupOfSetting(path string) string {
	section, _, _ := strings.Cut(path, ".")
	switch section {
	case "ratelimit", "robots", "concurrency", "per_host_max", "max_blocked":
		return GroupPolite
	case "fetch":
		return GroupFetch
	case "access":
		return GroupAccess
	case "extract", "output", "warc", "state", "stats", "listen", "traces":
		return groupOutput
	case "fleet":
		return groupFleet
	case "log", "": // an empty path: --set
		return GroupMessages
	}
	return GroupSeeds
}

// SetGroup puts a flag into a group of the help.
func SetGroup(f *pflag.Flag, group string) {
	f.Annotations = map[string][]string{groupKey: {group}}
}

// GroupOf returns the group that a flag was put into, or else that of its setting, or GroupOwn for the flags of a verb.
func GroupOf(f *pflag.Flag) string {
	if g := f.Annotations[groupKey]; len(g) == 1 {
		return g[0]
	}
	if v, setting := f.Value.(*flagValue); setting {
		return GroupOfSetting(v.flag.Path)
	}
	return GroupOwn
}

// NoArgs is the check of commands that take no arguments.
func NoArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return cli.Usagef("%q takes no arguments, and was given %q", cmd.CommandPath(), args[0])
	}
	return nil
}

// SomeArgs returns a check for at least one argument, whose error is need.
func SomeArgs(need string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cli.Usagef("%s", need)
		}
		return nil
	}
}

// OneArg returns a check for exactly one argument that is not empty; need is the beginning of its error.
func OneArg(need string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		given := slices.DeleteFunc(slices.Clone(args), func(arg string) bool { return arg == "" })
		if len(given) == 1 && len(args) == 1 {
			return nil
		}
		return cli.Usagef("%s, and was given %d", need, len(given))
	}
}

// OneDir returns a check for one argument, the directory of a crawl that has a state.
func OneDir(verb string) cobra.PositionalArgs {
	return OneArg(verb + " needs one DIR, as 'crawl --state DIR' or 'crawl --output DIR/' made it")
}

// CompleteDirs has a shell complete the names of directories.
func CompleteDirs(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveFilterDirs
}

// Interruptible returns a RunE of cobra that calls run with a context that an interrupt or SIGTERM cancels.
func Interruptible(run func(ctx context.Context, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		return run(ctx, args)
	}
}
