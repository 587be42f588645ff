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
	for _, ofWatch := range []string{"webhook", "once"} {
		cmd.Flags().Bool(ofWatch, false, "")
	}
	seen := map[string]bool{}
	for _, f := range foreigners {
		require.NotEqual(t, f.here == "", f.says == "", f.theirs)
		for name := range strings.FieldsSeq(f.theirs) {
			require.False(t, seen[name], "%s is there twice", name)
			seen[name] = true
			require.Nil(t, flagOf(cmd.Flags(), "-"+strings.TrimPrefix("-"+name, "--")), "%s is a flag of crawl", name)
			require.Empty(t, config.RetiredFlag(name), "%s was one", name)
		}
		if f.here != "" {
			require.NotNil(t, cmd.Flags().Lookup(f.here), f.theirs)
		}
		require.True(t, hasAll(cmd, f.says), f.theirs)
		for _, setting := range regexp.MustCompile(`--set (\S+)`).FindAllStringSubmatch(f.says, -1) {
			set.Given = []config.FlagValue{{Name: "set", Value: setting[1]}}
			if _, err := set.Load(nil); err != nil {
				require.NotContains(t, err.Error(), "not a setting", f.theirs)
			}
		}
	}
}

// A flag of another program is answered for a command that has the same, and as it was spelled.
func TestForeignFlags(t *testing.T) {
	crawls, reads, other := &cobra.Command{Use: "crawl"}, &cobra.Command{Use: "read"}, &cobra.Command{Use: "stats"}
	AddAll(crawls, false)
	Add(reads, true, func(f *config.Flag) bool { return f.Name == "max-rate" })
	other.Flags().Bool("json", false, "")
	for _, tc := range []struct {
		cmd        *cobra.Command
		args, want string
	}{
		{crawls, "--grep x", "; --item page --field"},
		{crawls, "--level 3", "--level is not a flag of \"crawl\"; here it is --depth"},
		{crawls, "-l3", "-l is not a flag of \"crawl\"; here it is --depth"},
		{crawls, "-qnp", "-np is not a flag of \"crawl\"; --scope prefix"},
		{crawls, "--csv", "; --format csv, or -o FILE.csv, writes a table"},
		{reads, "--csv", "--csv is not a flag of \"read\""},
		{reads, "--level 3", "--level is not a flag of \"read\""},
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

// A word that other programs have for a command is answered with what does it here, and one that is misspelled with a
// command.
func TestForeignCommands(t *testing.T) {
	root := &cobra.Command{Use: "crawl"}
	root.AddCommand(&cobra.Command{Use: "watch", Run: func(*cobra.Command, []string) {}})
	require.Equal(t, "; URLs need no command: 'crawl https://example.com/'", nearCommand(root, "Run"))
	require.Equal(t, `; did you mean "watch"?`, nearCommand(root, "wacth"))
	require.Empty(t, nearCommand(root, "nothing"))
}
