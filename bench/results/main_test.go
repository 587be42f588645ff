package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// The page and its pictures are what the figures give.
func TestPage(t *testing.T) {
	docs := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(docs, "images"), 0o755))
	page, err := os.ReadFile("../../docs/benchmarks.md")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(docs, "benchmarks.md"), page, 0o644))
	require.NoError(t, run("..", docs))
	made, err := filepath.Glob(filepath.Join(docs, "*", "*.svg"))
	require.NoError(t, err)
	require.NotEmpty(t, made)
	for _, path := range append(made, filepath.Join(docs, "benchmarks.md")) {
		name, err := filepath.Rel(docs, path)
		require.NoError(t, err)
		got, err := os.ReadFile(path)
		require.NoError(t, err)
		want, err := os.ReadFile(filepath.Join("../../docs", name))
		require.NoError(t, err)
		require.Equal(t, string(want), string(got), "%s is not up to date: cd bench && go run ./results", name)
	}
}

// A share is counted from one second to another, and of the seconds that there are.
func TestShare(t *testing.T) {
	r := row{"available": "2", "admitted": "2 1 1 0", "refused": "0 0 1 3"}
	text, _, _ := share(r, 0, 2)
	require.Equal(t, "75.0 / 0.00", text)
	text, used, refused := share(r, 2, 60)
	require.Equal(t, "25.0 / 80.00", text)
	require.InDelta(t, 25, used, 1e-9)
	require.InDelta(t, 80, refused, 1e-9)
}
