package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/treadlight/crawl/cmd/crawl/internal/exit"
	"github.com/treadlight/crawl/cmd/crawl/internal/human"
	"github.com/treadlight/crawl/cmd/crawl/internal/terminal"
)

// completionCommand writes what makes a shell complete commands, flags and words.
func completionCommand(s terminal.Streams) *cobra.Command {
	shells := []string{"bash", "zsh", "fish", "powershell"}
	return &cobra.Command{
		Use:   "completion bash|zsh|fish|powershell",
		Short: "Print a script that makes a shell complete commands and flags",
		Example: `  source <(crawl completion bash)       add this line to ~/.bashrc to keep it
  crawl completion zsh > "${fpath[1]}/_crawl"
  crawl completion fish > ~/.config/fish/completions/crawl.fish
  crawl completion powershell | Out-String | Invoke-Expression`,
		ValidArgs: shells,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return exit.Usage(fmt.Errorf("name one shell: %s", human.OneOf(shells)))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			switch args[0] {
			case "bash":
				return exit.Output(root.GenBashCompletionV2(s.Out, true))
			case "zsh":
				return exit.Output(root.GenZshCompletion(s.Out))
			case "fish":
				return exit.Output(root.GenFishCompletion(s.Out, true))
			case "powershell":
				return exit.Output(root.GenPowerShellCompletionWithDesc(s.Out))
			}
			return exit.Usage(fmt.Errorf("there is no completion for %q: give %s", args[0], human.OneOf(shells)))
		},
	}
}
