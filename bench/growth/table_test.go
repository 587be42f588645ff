package growth_test

import (
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// table is a table in Markdown, a column as wide as it comes.
type table struct{ lines []string }

func newTable(columns ...string) *table {
	return &table{[]string{"| " + strings.Join(columns, " | ") + " |", "|" + strings.Repeat("--:|", len(columns))}}
}

// add adds a row.
func (g *table) add(cells ...any) {
	text := make([]string, len(cells))
	for i, c := range cells {
		text[i] = cell(c)
	}
	g.lines = append(g.lines, "| "+strings.Join(text, " | ")+" |")
}

// cell writes a figure with three digits that say something.
func cell(v any) string {
	f, ok := v.(float64)
	switch {
	case !ok:
		return fmt.Sprint(v)
	case math.Abs(f) >= 100 || f == 0:
		return fmt.Sprintf("%.0f", f)
	case math.Abs(f) >= 10:
		return fmt.Sprintf("%.1f", f)
	}
	return fmt.Sprintf("%.2f", f)
}

// mega is bytes in megabytes.
func mega(n int64) float64 { return float64(n) / (1 << 20) }

// share is bytes per URL.
func share(bytes, urls int64) float64 { return float64(bytes) / float64(urls) }

// print writes the table to standard output, and to where it was asked for.
func (g *table) print(t *testing.T) {
	t.Helper()
	text := strings.Join(g.lines, "\n") + "\n\n"
	_, err := fmt.Fprint(os.Stdout, "\n", text)
	require.NoError(t, err)
	if *outFile == "" {
		return
	}
	f, err := os.OpenFile(*outFile, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	require.NoError(t, err)
	_, err = f.WriteString(text)
	require.NoError(t, err)
	require.NoError(t, f.Close())
}
