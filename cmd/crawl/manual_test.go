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

	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/internal/lab/docpage"
)

// The commands that the manual prints have flags that there are, of their own verb.
func TestManualsCommandsHaveTheirFlags(t *testing.T) {
	root := rootCommand(cli.Streams{})
	var (
		command = regexp.MustCompile(`(?m)^(?:    )?(?:\$ )?crawl (.*)$`)
		quoted  = regexp.MustCompile(`'[^']*'|"[^"]*"`)
		long    = regexp.MustCompile(`(?:^|\s)--([a-z][a-z0-9-]*)`)
	)
	seen := 0
	for _, name := range docpage.Pages(t) {
		for _, m := range command.FindAllStringSubmatch(docpage.Read(t, name), -1) {
			line, _, _ := strings.Cut(quoted.ReplaceAllString(m[1], "Q"), "#")
			line, _, _ = strings.Cut(line, "|")
			cmd, _, err := root.Find(strings.Fields(line))
			if err != nil {
				cmd = root // a URL comes first
			}
			flags := allFlags(cmd)
			for _, flag := range long.FindAllStringSubmatch(line, -1) {
				seen++
				require.True(t, flags[flag[1]], "%s: crawl %s: --%s", name, m[1], flag[1])
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

// The tests that the manual says measure something are where it says, with the flags that it
// gives.
func TestManualsTestsAreThere(t *testing.T) {
	var (
		command = regexp.MustCompile("`go test ([^`]+)`")
		name    = regexp.MustCompile(`-(?:run|bench) '?([A-Za-z0-9|]+)`)
		pkg     = regexp.MustCompile(`(?:^|\s)(\.(?:/[a-z0-9/]+)?)(?:\s|$)`)
		flag    = regexp.MustCompile(`-([a-z]+\.[a-z]+)`)
	)
	tests := 0
	for _, doc := range docpage.Pages(t) {
		for _, m := range command.FindAllStringSubmatch(strings.ReplaceAll(docpage.Read(t, doc), "\n", " "), -1) {
			dir := pkg.FindStringSubmatch(m[1])
			require.NotNil(t, dir, "%s: %s", doc, m[1])
			files, err := filepath.Glob(filepath.Join("../..", dir[1], "*_test.go"))
			require.NoError(t, err)
			source := ""
			for _, file := range files {
				text, err := os.ReadFile(file)
				require.NoError(t, err)
				source += string(text)
			}
			for _, names := range name.FindAllStringSubmatch(m[1], -1) {
				for one := range strings.SplitSeq(names[1], "|") {
					if one == "xxx" { // benchmarks alone
						continue
					}
					tests++
					require.Regexp(t, `func (Test|Benchmark)?[A-Za-z0-9]*`+one, source, "%s: %s", doc, m[1])
				}
			}
			for _, f := range flag.FindAllStringSubmatch(m[1], -1) {
				require.Contains(t, source, `"`+f[1]+`"`, "%s: %s", doc, m[1])
			}
		}
	}
	require.Greater(t, tests, 25)
}
