package endpoint

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const token = "0123456789abcdef"

func TestParseAddress(t *testing.T) {
	for text, want := range map[string]string{
		"8080": "http://127.0.0.1:8080/", ":8080": "http://127.0.0.1:8080/", "localhost:1": "http://127.0.0.1:1/",
		"0": "http://127.0.0.1:0/", "[::1]:80": "http://[::1]:80/", "0.0.0.0:8080": "http://127.0.0.1:8080/",
		"[::]:8080": "http://[::1]:8080/", "192.0.2.7:99": "http://192.0.2.7:99/", "[::ffff:127.0.0.1]:1": "http://127.0.0.1:1/",
	} {
		a, err := ParseAddress(text)
		require.NoError(t, err, text)
		require.Equal(t, want, a.URL(), text)
	}
	for text, complaint := range map[string]string{
		"": "no address to listen at", "localhost": "no address", "x:y": "no address", "65536": "no address",
		"example.com:80": "has a name", "127.0.0.1": "no address", "-1": "no address", "http://localhost:80/": "no address",
	} {
		_, err := ParseAddress(text)
		require.ErrorContains(t, err, complaint, text)
	}
}

// What can be reached from elsewhere needs a token, and one that cannot be guessed.
func TestCheckAddress(t *testing.T) {
	for _, c := range []struct{ at, token, complaint string }{
		{"8080", "", ""},
		{"[::1]:8080", "", ""},
		{"127.8.9.1:8080", "", ""},
		{"8080", token, ""},
		{"8080", "too short", "the token is too short: 9 bytes; use 16 or more"},
		{"0.0.0.0:8080", "", "set a token, or listen at 127.0.0.1:8080"},
		{"[::]:8080", "", "set a token"},
		{"192.0.2.7:8080", "", "set a token"},
		{"0.0.0.0:8080", token, ""},
	} {
		a, err := ParseAddress(c.at)
		require.NoError(t, err)
		if err = a.Check(c.token); c.complaint == "" {
			require.NoError(t, err, c)
		} else {
			require.ErrorContains(t, err, c.complaint, c)
		}
	}
	require.Error(t, Address{}.Check(token), "the zero Address")
}

// A parsed address always has an URL that parses back to one of the same port.
func FuzzParseAddress(f *testing.F) {
	for _, s := range []string{"8080", ":0", "[::1]:9", "0.0.0.0:1", "localhost:7", "[fe80::1%eth0]:5", "x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		a, err := ParseAddress(s)
		if err != nil {
			return
		}
		at := strings.TrimSuffix(strings.TrimPrefix(a.URL(), "http://"), "/")
		back, err := ParseAddress(at)
		require.NoError(t, err)
		require.Equal(t, a.at.Port(), back.at.Port())
		require.Equal(t, a.URL(), back.URL())
		require.True(t, a.AnswersTo(at), "its own URL")
		require.False(t, a.AnswersTo("evil.example"))
	})
}

func TestEndpoints(t *testing.T) {
	for text, want := range map[string]string{
		"http://localhost:4318": "http://localhost:4318/v1/traces", "https://x.test/": "https://x.test/v1/traces",
		"https://x.test/in/traces?k=v": "https://x.test/in/traces?k=v", "http://[::1]:4318": "http://[::1]:4318/v1/traces",
	} {
		u, err := ParseCollector(text)
		require.NoError(t, err, text)
		require.Equal(t, want, u.String())
	}
	for text, complaint := range map[string]string{
		"localhost:4318": "is no URL", "": "is no URL", "ftp://x.test": "is no URL", "http://": "is no URL", "http://%": "is no URL",
		"http://me:pw@x.test": "give them as a header", "http://x.test:4317": "gRPC",
	} {
		_, err := ParseCollector(text)
		require.ErrorContains(t, err, complaint, text)
	}
}
