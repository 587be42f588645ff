package assembly

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/config"
)

// What nobody asked for is not in the way of requests.
func TestNothingAroundRequestsByDefault(t *testing.T) {
	for yaml, want := range map[string][2]bool{
		"":                                  {false, false},
		"resilience: {circuit_breaker: {}}": {false, false},
		"resilience: {retry: {}}":           {false, true},
		"resilience: {timeout: {}}":         {true, false},
		"resilience: {bulkhead: {}}":        {true, false},
	} {
		loaded, err := config.Load(config.Sources{File: "crawl.yaml", Reader: strings.NewReader(yaml)})
		require.NoError(t, err)
		c, err := New(Config{Settings: loaded.Config})
		require.NoError(t, err)
		fc := c.fetchConfig()
		require.Equal(t, want, [2]bool{fc.Chain != nil, fc.Repeating != nil}, yaml)
	}
}
