package sink

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestID(t *testing.T) {
	// printf 'j\0page\0http://a.test/' | sha256sum
	require.Equal(t, "98942e506a1d9a44a78c802517f573e9", ID("j", "page", "http://a.test/"), "it is a promise to whoever has stored it")
	seen := make(map[string]bool)
	for _, parts := range [][3]string{{"j", "page", "http://a.test/"}, {"jp", "age", "http://a.test/"}, {"j", "pageh", "ttp://a.test/"}, {"j", "sitemap", "http://a.test/"}, {"", "page", "http://a.test/"}} {
		id := ID(parts[0], parts[1], parts[2])
		require.Regexp(t, "^[0-9a-f]{32}$", id)
		require.False(t, seen[id])
		seen[id] = true
	}
}
