package canonical

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/lab/conformance"
)

// TestNormalization runs the cases of RFC 3986 §6.2, and again with what they came to.
func TestNormalization(t *testing.T) {
	data, err := os.ReadFile("../../../testdata/conformance/rfc3986.txt")
	require.NoError(t, err)
	passed, cases := 0, 0
	for line := range strings.Lines(string(data)) {
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[0] == "#" {
			continue
		}
		require.Len(t, fields, 2, line)
		cases++
		u, err := Parse(fields[0])
		again, errAgain := Parse(fields[1])
		if err == nil && errAgain == nil && u.String() == fields[1] && again == u {
			passed++
		} else {
			t.Errorf("%s = %v (%v), want %s, which is %v (%v)", fields[0], u, err, fields[1], again, errAgain)
		}
	}
	if !t.Failed() {
		conformance.Report(t, "rfc3986", conformance.Result{Cases: cases, Passed: passed})
	}
}
