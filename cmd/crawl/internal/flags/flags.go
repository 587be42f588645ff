// Package flags declares the flags of the settings, which several commands have, loads the settings from file,
// environment and flags, and writes the help and the manual pages of all commands.
package flags

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/internal/config"
)

// Settings are the flags of the configuration's table, and the file that --config names.
type Settings struct {
	File  string
	Given []config.FlagValue // in the order of the command line
}

// Add declares a flag for every field of the configuration that has one and that keep lets in. They are the command's
// own and not its children's: a flag that does nothing for a verb is an error there.
func Add(cmd *cobra.Command, keep func(config.Flag) bool) *Settings {
	s := &Settings{}
	flags := cmd.Flags()
	flags.SortFlags = false // the table's order is by importance
	for _, f := range config.Flags() {
		if !keep(f) {
			continue
		}
		pf := flags.VarPF(&flagValue{flag: f, to: s}, f.Name, f.Shorthand, f.Help)
		pf.Hidden = f.Hidden
		if f.Switch {
			pf.NoOptDefVal = "true"
		}
		SetGroup(pf, GroupOfSetting(f.Path))
		complete(cmd, f)
	}
	return s
}

// AddAll declares all of them and --config. In a verb's help they are hidden: that of crawl has them.
func AddAll(cmd *cobra.Command, hide bool) *Settings {
	s := Add(cmd, func(config.Flag) bool { return true })
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if _, ours := f.Value.(*flagValue); ours && hide {
			f.Hidden = true
		}
	})
	cmd.Flags().StringVar(&s.File, "config", "", "read settings from this YAML or JSON `file`; flags are stronger")
	return s
}

// complete lets a shell offer the words of a choice, file names for what is a file, and nothing for the rest.
func complete(cmd *cobra.Command, f config.Flag) {
	words, directive := []string(nil), cobra.ShellCompDirectiveNoFileComp
	switch {
	case !f.Switch && f.Words != nil:
		words = f.Words
	case f.Arg == "file":
		directive = cobra.ShellCompDirectiveDefault
	case f.Arg == "dir":
		directive = cobra.ShellCompDirectiveFilterDirs
	}
	// The only error is a flag that does not exist or has its words already.
	_ = cmd.RegisterFlagCompletionFunc(f.Name, cobra.FixedCompletions(words, directive))
}

// Load lays file, environment and flags over the defaults.
func (s *Settings) Load(env []string) (*config.Loaded, error) {
	return Load(config.Sources{File: s.FileIn(env), Env: env, Flags: s.Given})
}

// Again loads for a process that has loaded before; nil if there is no file. A pipe has been read to its end, and a
// file of no bytes is one that an editor is about to write: both would lift what the user has laid down, in the middle
// of a crawl.
func Again(file string, load func() (*config.Loaded, error)) func() (*config.Loaded, error) {
	if file == "" {
		return nil
	}
	return func() (*config.Loaded, error) {
		info, err := os.Stat(file)
		switch {
		case err != nil: // load tells what is wrong
		case !info.Mode().IsRegular():
			return nil, fmt.Errorf("%s is no regular file and can be read only once: give --config a file to change settings later", file)
		case info.Size() == 0:
			return nil, fmt.Errorf("%s is empty: to go back to the defaults write {} into it", file)
		}
		return load()
	}
}

// FileIn is the file of the configuration; empty for none.
func (s *Settings) FileIn(env []string) string {
	if s.File != "" {
		return s.File
	}
	return cli.LookupEnv(env, "CRAWL_CONFIG")
}

// Load tells a file that cannot be read from one that is wrong: another exit code.
func Load(from config.Sources) (*config.Loaded, error) {
	loaded, err := config.Load(from)
	if err != nil {
		return nil, Wrong(err)
	}
	return loaded, nil
}

// Wrong is the end of a command whose settings are wrong, or name a file that cannot be read.
func Wrong(err error) error {
	if cli.Has[*fs.PathError](err) {
		return cli.IO(err)
	}
	return cli.Usage(err)
}

// flagValue notes each use of a flag as text; the configuration parses them all together, so that one error can list
// everything that is wrong.
type flagValue struct {
	flag config.Flag
	to   *Settings
}

func (v *flagValue) Set(s string) error {
	v.to.Given = append(v.to.Given, config.FlagValue{Name: v.flag.Name, Value: s})
	return nil
}

// String is the default, for the help. A switch that is shown is off by default.
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

// The groups of flags, in the order of the help: first what a crawl is about, then how it goes about it. A verb's own
// come before all.
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

// Groups is their order.
var Groups = []string{GroupOwn, GroupSeeds, GroupPolite, GroupFetch, GroupAccess, groupOutput, groupFleet, GroupMessages}

const groupKey = "treadlight_group"

// GroupOfSetting is where the flag of a setting belongs, by its section.
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
	case "log", "": // --set
		return GroupMessages
	}
	return GroupSeeds
}

// SetGroup puts a flag into a group of the help.
func SetGroup(f *pflag.Flag, group string) {
	f.Annotations = map[string][]string{groupKey: {group}}
}

// GroupOf is the group a flag was put into; a verb's own flags are in none.
func GroupOf(f *pflag.Flag) string {
	if g := f.Annotations[groupKey]; len(g) == 1 {
		return g[0]
	}
	return GroupOwn
}

// NoArgs is for verbs that take none.
func NoArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return cli.Usagef("%q takes no arguments, and was given %q", cmd.CommandPath(), args[0])
	}
	return nil
}

// SomeArgs wants at least one; need says what.
func SomeArgs(need string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cli.Usagef("%s", need)
		}
		return nil
	}
}

// OneArg wants one argument that is not empty; need says which.
func OneArg(need string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		n := 0
		for _, arg := range args {
			if arg != "" {
				n++
			}
		}
		if n == 1 && len(args) == 1 {
			return nil
		}
		return cli.Usagef("%s, and was given %d", need, n)
	}
}

// OneDir wants the directory of a crawl that is kept.
func OneDir(verb string) cobra.PositionalArgs {
	return OneArg(verb + " needs one DIR, as 'crawl --state DIR' or 'crawl --output DIR/' made it")
}

// CompleteDirs completes names of directories.
func CompleteDirs(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveFilterDirs
}

// Interruptible runs a command under a context that an interrupt or SIGTERM ends.
func Interruptible(run func(ctx context.Context, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		return run(ctx, args)
	}
}
