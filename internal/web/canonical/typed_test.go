package canonical_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/web/canonical"
)

// What people type and copy is read as they mean it.
func TestParseTyped(t *testing.T) {
	for _, tc := range []struct{ typed, url, wrong string }{
		{typed: "example.com", url: "https://example.com/"},
		{typed: "  http://example.com/a b ", url: "http://example.com/a%20b"},
		{typed: "localhost:8080/x", url: "http://localhost:8080/x"},
		{typed: "example.com:443", url: "https://example.com/"},
		{typed: "example.com:8443", url: "https://example.com:8443/"},
		{typed: "<https://example.com/a>", url: "https://example.com/a"},
		{typed: `"example.com"`, url: "https://example.com/"},
		{typed: "«example.com»", url: "https://example.com/"},
		{typed: `"example.com`, wrong: "a quotation mark is in front"},
		{typed: "mailto:me@example.com", wrong: "mailto: addresses have no pages"},
		{typed: "'Tel:123'", wrong: "tel: addresses have no pages"},
		{typed: "./list.txt", wrong: "--input-file"},
		{typed: "http:/example.com", wrong: "two slashes are missing"},
		{typed: "https//example.com", wrong: "two slashes are missing"},
		{typed: "ftp://example.com/", wrong: "scheme"},
		{typed: "", wrong: "empty"},
	} {
		u, err := canonical.ParseTyped(tc.typed)
		if tc.wrong == "" {
			require.NoError(t, err, tc.typed)
			require.Equal(t, tc.url, u.String(), tc.typed)
			continue
		}
		require.ErrorContains(t, err, tc.wrong, tc.typed)
	}
}
