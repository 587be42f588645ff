package main

import (
	"errors"
	"io/fs"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/treadlight/crawl/internal/config"
)

// settings are the flags of the configuration's table, and the file that --config names.
type settings struct {
	file  string
	given []config.FlagValue // in the order of the command line
}

// addFlags declares a flag for every field of the configuration that has one and that
// keep lets in. They are the command's own and not its children's: a flag that does
// nothing for a verb is an error there, not silence.
func addFlags(cmd *cobra.Command, keep func(config.Flag) bool) *settings {
	s := &settings{}
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
		setGroup(pf, groupOf(f.Path))
		complete(cmd, f)
	}
	return s
}

// addConfigFlag declares --config.
func (s *settings) addConfigFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&s.file, "config", "", "read settings from this YAML or JSON `file`; flags are stronger")
}

// hide keeps the flags of the settings out of the help of cmd.
func hide(cmd *cobra.Command) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if _, ours := f.Value.(*flagValue); ours {
			f.Hidden = true
		}
	})
}

// complete lets a shell offer the words of a choice, file names for what is a file, and
// nothing for the rest.
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

// load lays file, environment and flags over the defaults.
func (s *settings) load(env []string) (*config.Loaded, error) {
	return load(config.Sources{File: s.fileIn(env), Env: env, Flags: s.given})
}

// fileIn is the file of the configuration; empty for none.
func (s *settings) fileIn(env []string) string {
	if s.file != "" {
		return s.file
	}
	return lookup(env, "CRAWL_CONFIG")
}

// load tells a file that cannot be read from one that is wrong: another exit code, and
// another person to mend it.
func load(from config.Sources) (*config.Loaded, error) {
	loaded, err := config.Load(from)
	if err != nil {
		return nil, wrongSettings(err)
	}
	return loaded, nil
}

// wrongSettings is the end of a command whose settings are wrong, or name a file that
// cannot be read.
func wrongSettings(err error) error {
	if _, unread := errors.AsType[*fs.PathError](err); unread {
		return ioError(err)
	}
	return usage(err)
}

// lookup is the last value of a variable, as for a process.
func lookup(env []string, name string) string {
	for _, kv := range slices.Backward(env) {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			return v
		}
	}
	return ""
}

// flagValue notes each use of a flag as text; the configuration parses them all
// together, so that one error can list everything that is wrong.
type flagValue struct {
	flag config.Flag
	to   *settings
}

var _ pflag.Value = (*flagValue)(nil)

// Set notes one use.
func (v *flagValue) Set(s string) error {
	v.to.given = append(v.to.given, config.FlagValue{Name: v.flag.Name, Value: s})
	return nil
}

// String is the default, for the help.
func (v *flagValue) String() string {
	if v.flag.Switch {
		return "" // a switch that is shown is off by default
	}
	return v.flag.Default
}

// Type is what a value is called in the help.
func (v *flagValue) Type() string {
	if v.flag.Switch {
		return "bool"
	}
	return v.flag.Arg
}
