package config

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBytesSettings(t *testing.T) {
	l, err := Load(Sources{Flags: flags("accept-type", "text/*", "accept-type", "!text/css", "skip-larger", "50MiB", "body", "store")})
	require.NoError(t, err)
	require.Equal(t, []string{"text/*", "!text/css"}, l.Config.Fetch.AcceptTypes)
	require.EqualValues(t, 50<<20, l.Config.Fetch.SkipLarger)
	require.EqualValues(t, 1000, l.Config.Fetch.MaxRatio)
	require.Equal(t, "store", l.Config.Output.Body)

	_, err = Load(Sources{Flags: flags("accept-type", "html", "body", "some")})
	require.ErrorContains(t, err, `fetch.accept_types[0]: "html" is no pattern of media types: write type/subtype`)
	require.ErrorContains(t, err, "output.body")
}

// Bodies that have no place in a format are named at the start.
func TestBodiesWithoutAPlace(t *testing.T) {
	for format, told := range map[string]bool{"jsonl": false, "csv": true, "urls": true} {
		l, err := Load(Sources{Flags: flags("body", "store", "format", format)})
		require.NoError(t, err)
		require.Equal(t, told, strings.Contains(strings.Join(l.Warnings, "\n"), "the bodies are not written"), format)
		l, err = Load(Sources{Flags: flags("format", format)})
		require.NoError(t, err)
		require.NotContains(t, strings.Join(l.Warnings, "\n"), "bodies")
		l, err = Load(Sources{Flags: flags("text", "true", "format", format)})
		require.NoError(t, err)
		require.Equal(t, told, strings.Contains(strings.Join(l.Warnings, "\n"), "the texts are not written"), format)
	}
}

// --body and --no-digest are about one thing: of two layers the stronger one counts, and what
// one layer says twice, and differently, is a mistake.
func TestDigestHasOneMind(t *testing.T) {
	printed := func(src Sources) string {
		t.Helper()
		l := mustLoad(t, src)
		var b strings.Builder
		require.NoError(t, l.WriteYAML(&b))
		again, err := Load(yamlFile(b.String()))
		require.NoError(t, err, "what is printed loads again")
		require.Equal(t, l.Config.Output, again.Config.Output)
		return fmt.Sprint(l.Config.Output.Body, " ", l.Config.Output.Digest)
	}
	for _, c := range []struct {
		file  string
		flags []FlagValue
		want  string
	}{
		{"", nil, "hash true"},
		{"", flags("digest", "false"), "omit false"},
		{"", flags("body", "omit"), "omit false"},
		{"", flags("body", "omit", "digest", "false"), "omit false"},
		{"", flags("body", "hash", "digest", "true"), "hash true"},
		{"", flags("body", "store", "digest", "false"), "store false"},
		{"output: {body: hash}", flags("digest", "false"), "omit false"},
		{"output: {body: omit}", flags("digest", "true"), "hash true"},
		{"output: {digest: false}", flags("body", "hash"), "hash true"},
		{"output: {digest: true}", flags("body", "omit"), "omit false"},
	} {
		src := yamlFile(c.file)
		src.Flags = c.flags
		require.Equal(t, c.want, printed(src), "%s %v", c.file, c.flags)
	}
	require.Equal(t, []string{"output.digest: false contradicts output.body, which is hash [flag --body]; give one of the two [flag --digest]"},
		problems(t, Sources{Flags: flags("body", "hash", "digest", "false")}))
	require.Equal(t, []string{"output.digest: true contradicts output.body, which is omit [file crawl.yaml:1]; give one of the two [file crawl.yaml:1]"},
		problems(t, yamlFile("output: {digest: true, body: omit}")))

	// A program may leave the digest out by either, and such a crawl can be resumed.
	saved := Default()
	saved.Output.Digest = false
	require.NoError(t, saved.Validate())
	require.False(t, mustLoad(t, Sources{Saved: &saved}).Config.Output.Digest)
	require.True(t, mustLoad(t, Sources{Saved: &saved, Flags: flags("body", "hash")}).Config.Output.Digest)
}
