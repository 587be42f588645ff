package canonical

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDir(t *testing.T) {
	require.Empty(t, URL{}.Dir())
	for s, want := range map[string]string{
		"http://h/": "http://h/", "http://h/a": "http://h/", "http://h/a/": "http://h/a/", "https://h:1/a/b?c/d": "https://h:1/a/", "http://h/?a/b": "http://h/",
	} {
		require.Equal(t, want, mustParse(t, s).Dir(), s)
	}
}

func TestPortable(t *testing.T) {
	for _, ref := range []string{"a", "../a?b", "/", "//h", "/?", "a#b", "http://h", " a", "a?b=c", "http:///h"} {
		require.True(t, Portable([]byte(ref)), ref)
	}
	for _, ref := range []string{"", " ", "?", "?a", "\t?a", "#a", "http:", "http:?a", "ht\ntp:?a", "mailto:a", "http:?a=http://h"} {
		require.False(t, Portable([]byte(ref)), ref)
	}
}
