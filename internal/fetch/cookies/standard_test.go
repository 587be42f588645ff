package cookies_test

import (
	"net/http/cookiejar"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/fetch/cookies"
)

// A jar of net/http keeps what it can read, by its own rules, and quotes stay.
func TestStandard(t *testing.T) {
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	s := cookies.Standard{Jar: jar}
	s.Set(cookies.Origin{Host: "a.test", Path: "/"}, []string{"x=1", `q="a b"`, "=", "\x00"})
	s.Set(cookies.Origin{TLS: true, Host: "::1", Path: "/"}, []string{"y=2; Secure"})
	s.Set(cookies.Origin{Host: "b.test", Path: "/"}, nil)
	for o, want := range map[cookies.Origin]string{
		{Host: "a.test", Path: "/"}: `x=1; q="a b"`, {TLS: true, Host: "::1", Path: "/"}: "y=2",
		{Host: "::1", Path: "/"}: "", {Host: "b.test", Path: "/"}: "",
	} {
		require.Equal(t, want, s.Header(o), "%v", o)
	}
}
