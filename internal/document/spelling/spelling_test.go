package spelling_test

import (
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
		{"rtae", "rate", 2}, // a swap is two exchanges
		{"kitten", "sitting", 3},
		{"abc", "xyz", 3},
	} {
		require.Equal(t, tt.want, spelling.Distance(tt.a, tt.b), "%q, %q", tt.a, tt.b)
		require.Equal(t, tt.want, spelling.Distance(tt.b, tt.a), "%q, %q", tt.b, tt.a)
	}
}
