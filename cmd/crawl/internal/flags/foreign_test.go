package flags

import (
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/config"
)

// What is told in place of a flag of another program works here.
func TestForeignFlagsLeadToOurs(t *testing.T) {
	cmd := &cobra.Command{Use: "crawl"}
	set := AddAll(cmd, false)
	seen := map[string]bool{}
	for _, f := range foreigners {
		require.NotEqual(t, f.here == "", f.says == "", f.theirs)
		for _, name := range strings.Fields(f.theirs) {
			require.False(t, seen[name], "%s is there twice", name)
			seen[name] = true
			require.Nil(t, flagOf(cmd.Flags(), "-"+strings.TrimPrefix("-"+name, "--")), "%s is a flag of crawl", name)
			require.Empty(t, config.RetiredFlag(name), "%s was one", name)
		}
		if f.here != "" {
			require.NotNil(t, cmd.Flags().Lookup(f.here), f.theirs)
		}
		says := regexp.MustCompile(`'crawl [^']*'`).ReplaceAllString(f.says, "") // flags of verbs
		for _, ours := range regexp.MustCompile(`(?:^|\s)(--?[a-z-]+)`).FindAllStringSubmatch(says, -1) {
			require.NotNil(t, flagOf(cmd.Flags(), ours[1]), "%s: %s", f.theirs, ours[1])
		}
		for _, setting := range regexp.MustCompile(`--set (\S+)`).FindAllStringSubmatch(says, -1) {
			set.Given = []config.FlagValue{{Name: "set", Value: setting[1]}}
			if _, err := set.Load(nil); err != nil {
				require.NotContains(t, err.Error(), "not a setting", f.theirs)
			}
		}
	}
}

// A flag of another program is answered for a command that has the same, and as it was spelled.
func TestForeignFlags(t *testing.T) {
	crawls, other := &cobra.Command{Use: "crawl"}, &cobra.Command{Use: "stats"}
	AddAll(crawls, false)
	other.Flags().Bool("json", false, "")
	for _, tc := range []struct {
		cmd        *cobra.Command
		args, want string
	}{
		{crawls, "--grep x", "; --item page --field"},
		{crawls, "--level 3", "--level is not a flag of \"crawl\"; here it is --depth"},
		{crawls, "-l3", "-l is not a flag of \"crawl\"; here it is --depth"},
		{crawls, "-qnp", "-np is not a flag of \"crawl\"; --scope prefix"},
		{crawls, "-nx", "-n is not a flag of \"crawl\""},
		{other, "--level 3", "--level is not a flag of \"stats\""},
		{other, "--grep x", "--grep is not a flag of \"stats\""},
	} {
		err := FlagError(tc.cmd, tc.cmd.ParseFlags(strings.Fields(tc.args)))
		require.ErrorContains(t, err, tc.want, tc.args)
		if !strings.Contains(tc.want, "; ") {
			require.NotContains(t, err.Error(), "; ", tc.args)
		}
	}
}
