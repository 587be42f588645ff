package assembly

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/fetch"
)

func TestMaxInFlight(t *testing.T) {
	for _, tc := range []struct{ concurrency, files, want int }{
		{64, 0, 256}, {64, 1 << 20, 256}, {64, 512, 256}, {64, 400, 200}, {64, 100, 64}, {1, 1024, 4},
	} {
		require.Equal(t, tc.want, maxInFlight(tc.concurrency, tc.files), "%+v", tc)
	}
	require.NotZero(t, fetch.OpenFiles())
}
