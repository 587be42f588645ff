package robots_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/fetch/robots"
)

// The cases are in testdata/conformance/rfc9309. All of them must pass.
func TestConformance(t *testing.T) {
	text, err := os.ReadFile("../../../testdata/conformance/rfc9309/cases.txt")
	require.NoError(t, err)
	passed, all := 0, 0
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimRight(line, "\n"); line == "" || line[0] == '#' {
			continue
		}
		f := strings.Split(line, "\t")
		require.Len(t, f, 4, line)
		rules := strings.NewReplacer("A:", "Allow: ", "D:", "Disallow: ", "|", "\n").Replace(f[1])
		v := robots.Parse([]byte("User-agent: *\n" + rules + "\n")).Agent("treadlight").Check(f[2])
		if all++; v.Allowed == (f[3] == "yes") {
			passed++
		} else {
			t.Errorf("section %s: %q for %s: allowed is %v: %s", f[0], f[1], f[2], v.Allowed, v.Reason)
		}
	}
	require.NotZero(t, all)
	t.Logf("%d of %d cases of RFC 9309", passed, all)
}
