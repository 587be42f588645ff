// Package flags declares the flags of the settings, which several commands have, and loads the
// settings from file, environment and flags.
package flags

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/treadlight/crawl/cmd/crawl/internal/exit"
	"github.com/treadlight/crawl/cmd/crawl/internal/terminal"
	"github.com/treadlight/crawl/internal/config"
)

// Settings are the flags of the configuration's table, and the file that --config names.
type Settings struct {
	File  string
	Given []config.FlagValue // in the order of the command line
}

// Add declares a flag for every field of the configuration that has one and that
// keep lets in. They are the command's own and not its children's: a flag that does
// nothing for a verb is an error there, not silence.
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

// AddConfigFlag declares --config.
func (s *Settings) AddConfigFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&s.File, "config", "", "read settings from this YAML or JSON `file`; flags are stronger")
}

// Hide keeps the flags of the settings out of the help of cmd.
func Hide(cmd *cobra.Command) {
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

// Load lays file, environment and flags over the defaults.
func (s *Settings) Load(env []string) (*config.Loaded, error) {
	return Load(config.Sources{File: s.FileIn(env), Env: env, Flags: s.Given})
}

// FileIn is the file of the configuration; empty for none.
func (s *Settings) FileIn(env []string) string {
	if s.File != "" {
		return s.File
	}
	return terminal.LookupEnv(env, "CRAWL_CONFIG")
}

// Load tells a file that cannot be read from one that is wrong: another exit code, and
// another person to mend it.
func Load(from config.Sources) (*config.Loaded, error) {
	loaded, err := config.Load(from)
	if err != nil {
		return nil, Wrong(err)
	}
	return loaded, nil
}

// Wrong is the end of a command whose settings are wrong, or name a file that
// cannot be read.
func Wrong(err error) error {
	if _, unread := errors.AsType[*fs.PathError](err); unread {
		return exit.IO(err)
	}
	return exit.Usage(err)
}

// flagValue notes each use of a flag as text; the configuration parses them all
// together, so that one error can list everything that is wrong.
type flagValue struct {
	flag config.Flag
	to   *Settings
}

var _ pflag.Value = (*flagValue)(nil)

// Set notes one use.
func (v *flagValue) Set(s string) error {
	v.to.Given = append(v.to.Given, config.FlagValue{Name: v.flag.Name, Value: s})
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

// LoadAgain is load for a process that has loaded before. A pipe has been read to its end
// by then, and a file of no bytes is one that an editor is about to write: taken for what
// they say, both would lift whatever the user has laid down, in the middle of a crawl.
func (s *Settings) LoadAgain(env []string) (*config.Loaded, error) {
	if err := s.Readable(s.FileIn(env)); err != nil {
		return nil, err
	}
	return s.Load(env)
}

// Readable reports whether a file can be read for a second time.
func (s *Settings) Readable(file string) error {
	if info, err := os.Stat(file); err == nil { // load tells what is wrong otherwise
		switch {
		case !info.Mode().IsRegular():
			return fmt.Errorf("%s is no regular file and can be read only once: give --config a file to change settings later", file)
		case info.Size() == 0:
			return fmt.Errorf("%s is empty: to go back to the defaults write {} into it", file)
		}
	}
	return nil
}
