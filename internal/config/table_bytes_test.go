package config

import (
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
