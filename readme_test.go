package crawl_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/pipeline/sink"
)

// The README's table of fields is the schema.
func TestReadmeNamesEveryField(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	for _, f := range sink.Schema() {
		require.Contains(t, string(readme), "| `"+f.Name+"` | "+f.Type+" | "+strings.SplitN(f.Meaning, "(", 2)[0])
	}
}
