package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

// The commands that the manual prints have flags that there are, of their own verb.
func TestManualsCommandsHaveTheirFlags(t *testing.T) {
	root := rootCommand(streams{})
	var (
		command = regexp.MustCompile(`(?m)^(?:    )?(?:\$ )?crawl (.*)$`)
		quoted  = regexp.MustCompile(`'[^']*'|"[^"]*"`)
		long    = regexp.MustCompile(`(?:^|\s)--([a-z][a-z0-9-]*)`)
	)
	docs, err := filepath.Glob("../../docs/*.md")
	require.NoError(t, err)
	seen := 0
	for _, name := range append(docs, "../../README.md") {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		for _, m := range command.FindAllStringSubmatch(string(text), -1) {
			line, _, _ := strings.Cut(quoted.ReplaceAllString(m[1], "Q"), "#")
			line, _, _ = strings.Cut(line, "|")
			cmd, _, err := root.Find(strings.Fields(line))
			if err != nil {
				cmd = root // a URL comes first
			}
			flags := allFlags(cmd)
			for _, flag := range long.FindAllStringSubmatch(line, -1) {
				seen++
				require.True(t, flags[flag[1]], "%s: crawl %s: --%s", filepath.Base(name), m[1], flag[1])
			}
		}
	}
	require.Greater(t, seen, 50)
}

// allFlags is the flags that a command takes.
func allFlags(cmd *cobra.Command) map[string]bool {
	all := map[string]bool{"help": true, "version": true}
	add := func(f *pflag.Flag) { all[f.Name] = true }
	cmd.Flags().VisitAll(add)
	cmd.InheritedFlags().VisitAll(add)
	return all
}
