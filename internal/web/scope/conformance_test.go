package scope

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/lab/conformance"
	"github.com/treadlight/crawl/internal/web/canonical"
)

// TestPublicSuffixes runs the cases under testdata, on names as links have them.
func TestPublicSuffixes(t *testing.T) {
	data, err := os.ReadFile("../../../testdata/conformance/publicsuffix.txt")
	require.NoError(t, err)
	passed, cases := 0, 0
	for line := range strings.Lines(string(data)) {
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(line, "#") {
			continue
		}
		require.Len(t, fields, 2, line)
		cases++
		u, err := canonical.Parse("https://" + fields[0] + "/")
		require.NoError(t, err, fields[0])
		want := fields[1]
		if want == "-" {
			want = u.Hostname()
		}
		if got := domainOf(u.Hostname()); got == want {
			passed++
		} else {
			t.Errorf("%s belongs to %s, want %s", fields[0], got, want)
		}
	}
	if !t.Failed() {
		conformance.Report(t, "publicsuffix", conformance.Result{Cases: cases, Passed: passed})
	}
}
