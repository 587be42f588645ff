package assembly

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
)

// What another process of a job brings is no seed of the user's.
func TestSeedsOfOtherProcessesOpenNothing(t *testing.T) {
	c, err := New(DefaultConfig())
	require.NoError(t, err)
	f := &fleet{crawl: c}
	for _, url := range []string{"http://127.0.24.2:8080/", "http://localhost:8080/", "http://seed.test:8080/"} {
		f.hearSeed(url, 0)
	}
	require.False(t, c.named.addresses.Allows("127.0.24.2", netip.MustParseAddrPort("127.0.24.2:8080"), false))
	require.False(t, c.named.addresses.Allows("localhost", netip.MustParseAddrPort("127.0.0.1:8080"), false))
}
