package spelling_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/document/spelling"
)

func TestDistance(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want int
	}{
		{"", "", 0},
		{"", "rate", 4},
		{"rate", "rate", 0},
		{"rate", "rat", 1},
		{"rtae", "rate", 1}, // a swap is one slip
		{"abc", "axc", 1},
		{"kitten", "sitting", 3},
		{"abc", "xyz", 3},
		{strings.Repeat("a", 1<<20), "a", 1 << 20}, // not compared
	} {
		require.Equal(t, tt.want, spelling.Distance(tt.a, tt.b), "%.20q, %q", tt.a, tt.b)
		require.Equal(t, tt.want, spelling.Distance(tt.b, tt.a), "%.20q, %q", tt.b, tt.a)
	}
}

func TestNearest(t *testing.T) {
	names := []string{"rate", "retries", "depth", "max-pages", "max-pages-per-host", "no-robots", "scope"}
	for name, want := range map[string]string{
		"dpeth": "depth", "depht": "depth", "retry": "retries", "max-page": "max-pages",
		"max-pages-host": "max-pages-per-host", "MAX_PAGES": "max-pages", "scop": "scope",
		"z": "", "": "", "colour": "", strings.Repeat("rate", 100): "",
	} {
		require.Equal(t, want, spelling.Nearest(name, names), name)
	}
}
