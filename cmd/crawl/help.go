package main

import (
	"embed"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/cmd/crawl/internal/flags"
	"github.com/treadlight/crawl/internal/config"
)

// helpTexts has a file for each command: its usage, a short and a long description, and examples.
//
//go:embed help
var helpTexts embed.FS

// verb returns the command name with the texts of its file. The command takes no arguments unless its maker changes
// that.
func verb(name string) *cobra.Command {
	text, err := helpTexts.ReadFile("help/" + name + ".txt")
	if err != nil {
		panic(err) // the file is part of the program
	}
	about, examples, _ := strings.Cut(string(text), "\nExamples:\n")
	use, about, _ := strings.Cut(about, "\n")
	short, long, _ := strings.Cut(about, "\n")
	return &cobra.Command{
		Use: use, Short: short, Long: strings.TrimSpace(long), Example: strings.TrimRight(examples, "\n"),
		Args: flags.NoArgs, ValidArgsFunction: cobra.NoFileCompletions,
	}
}

// visitFlags adds the flags about how a site is visited to a command that takes URLs and has its own flags already. Its
// help does not list them.
func visitFlags(cmd *cobra.Command) *flags.Settings {
	settings := flags.Add(cmd, true, func(f *config.Flag) bool {
		switch flags.GroupOfSetting(f.Path) {
		case flags.GroupSeeds:
			return f.Path != "seeds.file" && f.Path != "duplicates.find" && f.Path != "scope.resources"
		case flags.GroupPolite, flags.GroupFetch, flags.GroupAccess, flags.GroupMessages:
			return true
		}
		return false
	})
	cmd.Flags().StringVar(&settings.File, "config", "", "read settings from this YAML or JSON `file`; flags are stronger")
	cmd.Flags().Lookup("config").Hidden = true
	cmd.Args, cmd.ValidArgsFunction = cobra.ArbitraryArgs, nil
	return settings
}

// configCommand returns the command that shows the settings and where each comes from. It loads them exactly as a crawl
// does and prints them instead of crawling.
func configCommand(s cli.Streams) *cobra.Command {
	var asJSON, reference bool
	cmd := verb("config")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().BoolVar(&reference, "reference", false, "print the manual of all settings, as Markdown")
	settings := flags.AddAll(cmd, true)
	cmd.RunE = func(*cobra.Command, []string) error {
		if reference {
			return cli.Output(config.Reference(s.Out))
		}
		loaded, err := settings.Load(s.Env)
		if err != nil {
			return err
		}
		for _, w := range loaded.Warnings { // comments in the YAML would be lost in a pipe
			_, _ = fmt.Fprintln(s.Err, "crawl: warning:", w)
		}
		if asJSON {
			return cli.Output(loaded.WriteJSON(s.Out))
		}
		return cli.Output(loaded.WriteYAML(s.Out))
	}
	return cmd
}

// helpCommand returns `crawl help [COMMAND]`. Unlike cobra's own, it reports a wrong command as an error.
func helpCommand(s cli.Streams) *cobra.Command {
	cmd := verb("help")
	cmd.Args, cmd.DisableFlagsInUseLine = cobra.ArbitraryArgs, true
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		about, rest, err := cmd.Root().Find(args)
		if err != nil || len(rest) > 0 {
			if cmd.Root().Flags().Lookup(args[0]) != nil {
				return cli.Usagef("%s is no command; 'crawl --help-all' has the flag --%[1]s", args[0])
			}
			return cli.Usagef("there is no command %q%s", strings.Join(args, " "), cli.Meant(flags.NearestCommand(cmd.Root(), args[0])))
		}
		about.InitDefaultHelpFlag()
		return flags.Show(s.Out, about)
	}
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, _ string) (names []string, _ cobra.ShellCompDirective) {
		for _, c := range cmd.Root().Commands() {
			if len(args) == 0 {
				names = append(names, c.Name())
			}
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
	return cmd
}

// manCommand returns the command that writes manual pages, for those who package the program. The help does not list
// it; the pages say the same as the help.
func manCommand(s cli.Streams) *cobra.Command {
	cmd := verb("man")
	cmd.Hidden, cmd.Args, cmd.ValidArgsFunction = true, flags.OneDir("man"), flags.CompleteDirs
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := os.MkdirAll(args[0], 0o777); err != nil { // the umask of the user takes bits away
			return cli.IO(err)
		}
		root := cmd.Root()
		var names []string
		for _, c := range append([]*cobra.Command{root}, root.Commands()...) {
			if c.Hidden || !c.IsAvailableCommand() && c != root {
				continue
			}
			name := strings.ReplaceAll(c.CommandPath(), " ", "-") + ".1"
			if err := os.WriteFile(filepath.Join(args[0], name), []byte(flags.Manual(c)), 0o666); err != nil {
				return cli.IO(err)
			}
			names = append(names, name)
		}
		_, err := fmt.Fprintln(s.Out, strings.Join(names, "\n"))
		return cli.Output(err)
	}
	return cmd
}

// completionCommand returns the command that writes a script with which a shell completes commands, flags and their
// words.
func completionCommand(s cli.Streams) *cobra.Command {
	cmd, shells := verb("completion"), []string{"bash", "zsh", "fish", "powershell"}
	cmd.Args, cmd.ValidArgs, cmd.ValidArgsFunction = cobra.ArbitraryArgs, shells, nil
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		root := cmd.Root()
		switch strings.Join(args, " ") {
		case "bash":
			return cli.Output(root.GenBashCompletionV2(s.Out, true))
		case "zsh":
			return cli.Output(root.GenZshCompletion(s.Out))
		case "fish":
			return cli.Output(root.GenFishCompletion(s.Out, true))
		case "powershell":
			return cli.Output(root.GenPowerShellCompletionWithDesc(s.Out))
		}
		if len(args) != 1 {
			return cli.Usagef("name one shell: %s", cli.OneOf(shells))
		}
		return cli.Usagef("there is no completion for %q: give %s", args[0], cli.OneOf(shells))
	}
	return cmd
}

// versionCommand returns the command that does what --version does, for those who look for a command.
func versionCommand(s cli.Streams) *cobra.Command {
	cmd := verb("version")
	cmd.RunE = func(*cobra.Command, []string) error { return showVersion(s.Out) }
	return cmd
}

func showVersion(w io.Writer) error {
	_, err := fmt.Fprintln(w, cli.VersionText())
	return cli.Output(err)
}
