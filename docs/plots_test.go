package docs_test

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/lab/docpage"
)

// Each plot of the pages is what the command below it draws, but for where the lines are: they move with every change of the
// controller.
func TestPlotsOfThePages(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds the command")
	}
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var (
		plot  = regexp.MustCompile("\\]\\(\\.\\./images/([a-z]+\\.svg)\\)\n\n```sh\n(crawl simulate .*)\n```")
		words = regexp.MustCompile(`<(?:title|desc|text)[^>]*>([^<0-9]*[A-Za-z][^<]*)<`)
	)
	bin, dir, drawn := program(t), t.TempDir(), map[string]bool{}
	for _, page := range docpage.Pages(t) {
		for _, m := range plot.FindAllStringSubmatch(docpage.Read(t, page), -1) {
			drawn[m[1]] = true
			out, err := shell(ctx, bin, dir, m[2]).CombinedOutput()
			require.NoError(t, err, "%s: %s", m[2], out)
			var said [2][]string
			for i, file := range []string{filepath.Join(dir, m[1]), filepath.Join("images", m[1])} {
				text, err := os.ReadFile(file)
				require.NoError(t, err)
				for _, word := range words.FindAllStringSubmatch(string(text), -1) {
					said[i] = append(said[i], word[1])
				}
			}
			require.NotEmpty(t, said[0])
			require.Equal(t, said[0], said[1], "`make plots` draws %s anew", m[1])
		}
	}
	pictures, err := filepath.Glob("images/*.svg")
	require.NoError(t, err)
	pictures = slices.DeleteFunc(pictures, func(name string) bool { return strings.HasPrefix(name, "images/bench-") }) // bench/results draws those
	require.Len(t, drawn, len(pictures), "each has its command")
}
