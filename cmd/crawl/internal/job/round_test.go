package job

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRoundPath(t *testing.T) {
	dir := t.TempDir()
	for _, tc := range []struct {
		path  string
		round int
		want  string
	}{
		{"records.jsonl", 2, "records-2.jsonl"},
		{"a/records-2.jsonl", 3, "a/records-3.jsonl"},
		{"a.b/records", 2, "a.b/records-2"},
		{"year-2.csv", 2, "year-2-2.csv"}, // the number is not ours
		{"records-9.csv", 10, "records-10.csv"},
		{"records-19.csv", 10, "records-19-10.csv"},
		{".hidden", 2, ".hidden-2"},
		{"-", 2, "-"},
		{os.DevNull, 7, os.DevNull},
		{filepath.Join(dir, "x.jsonl"), 2, filepath.Join(dir, "x-2.jsonl")},
	} {
		require.Equal(t, tc.want, RoundPath(tc.path, tc.round), tc.path)
	}
}
