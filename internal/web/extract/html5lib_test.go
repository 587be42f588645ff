package extract

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/lab/conformance"
)

// TestHTML5LibTokenizer holds the scanner to the oracle on the inputs of html5lib's tests of
// tokenizers, which x/net carries. Whether the oracle is right about them is for x/net's own
// tests: what matters here is that we stray from it nowhere.
func TestHTML5LibTokenizer(t *testing.T) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "golang.org/x/net").Output()
	require.NoError(t, err)
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(out)), "html/testdata/html5lib-tests/tokenizer/*.test"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	base := mustParse(t, docURL)
	inputs := 0
	for _, f := range files {
		content, err := os.ReadFile(f)
		require.NoError(t, err)
		var suite struct {
			Tests []struct{ Input string }
		}
		require.NoError(t, json.Unmarshal(content, &suite), f)
		for _, c := range suite.Tests {
			// Some are meant for a state within an element, where no page begins. They are
			// scanned all the same.
			page := []byte(c.Input + `<a href=after>y</a>`)
			require.Equal(t, story(&oracle{}, page, false, 0), story(&scanner{}, page, false, 0), "%q", c.Input)
			if inputs%10 == 0 { // a page with all there is to it costs ten times as much
				requireSame(t, base, page, 0)
			}
			inputs++
		}
	}
	require.Greater(t, inputs, 1000)
	conformance.Report(t, "html5lib-tokens", conformance.Result{Cases: inputs, Passed: inputs})
}
