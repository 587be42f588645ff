package sink

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Strings are looked at a word at a time first: whatever byte stands wherever in one, what is
// written is JSON that says the same, and holds nothing that a terminal would obey.
func TestEveryByteAtEveryPlaceOfAWord(t *testing.T) {
	for c := range 256 {
		for at := range 17 {
			s := []byte(strings.Repeat("a", 17))
			s[at] = byte(c)
			out := appendString(nil, string(s))
			var back string
			require.NoError(t, json.Unmarshal(out, &back), "%q", s)
			require.Equal(t, strings.ToValidUTF8(string(s), "\ufffd"), back)
			for _, b := range out {
				require.False(t, b < ' ' || b == 0x7f, "%q", out)
			}
			require.Equal(t, plain[c], string(out) == `"`+string(s)+`"`, "%q: %q", s, out)
		}
	}
}
