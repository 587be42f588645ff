package extract

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/lab/conformance"
)

// The cases are in testdata/conformance/headers.
func TestLinkConforms(t *testing.T) {
	text, err := os.ReadFile("../../../testdata/conformance/headers/links.txt")
	require.NoError(t, err)
	cases := 0
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		if line == "" || line[0] == '#' {
			continue
		}
		value, want, ok := strings.Cut(line, "\t")
		require.True(t, ok, line)
		cases++
		var got []string
		for rest := value; rest != ""; {
			var l headerLink
			if l, rest = nextLink(rest); l.params["rel"] == "" {
				continue
			}
			said := l.target + " " + l.params["rel"]
			if l.params["anchor"] != "" {
				said += " of another"
			}
			got = append(got, said)
		}
		require.Equal(t, want, strings.Join(got, " | "), value)
	}
	conformance.Report(t, "links", conformance.Result{Cases: cases, Passed: cases})
}
