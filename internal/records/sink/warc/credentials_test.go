package warc

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/fetch/redact"
)

func TestVeil(t *testing.T) {
	own, err := redact.New(redact.Config{Headers: []string{"X-Own"}})
	require.NoError(t, err)
	for request, want := range map[string]string{
		"": "", "\r\n": "\r\n", "no header": "no header",
		"GET /?token=1:2 HTTP/1.1\r\nHost: a.test\r\n\r\n": "GET /?token=1:2 HTTP/1.1\r\nHost: a.test\r\n\r\n",
		"GET / HTTP/1.1\r\nAuthorization: Basic YTpi\r\nHost: a.test\r\nCookie: a=b; c=d\r\n\r\n": "GET / HTTP/1.1\r\n" +
			"Authorization: xxx\r\nHost: a.test\r\nCookie: xxx\r\n\r\n",
		"GET / HTTP/1.1\r\nproxy-authorization:x\r\nx-own: 1\r\nX-Api-Key:   k  \r\n\r\n": "GET / HTTP/1.1\r\n" +
			"proxy-authorization: xxx\r\nx-own: xxx\r\nX-Api-Key: xxx\r\n\r\n",
		"GET / HTTP/1.1\nCookie: a=b\nX: y\n\n":                "GET / HTTP/1.1\nCookie: xxx\nX: y\n\n",
		"POST / HTTP/1.1\r\nX: y\r\n\r\nCookie: a body\r\n":    "POST / HTTP/1.1\r\nX: y\r\n\r\nCookie: a body\r\n",
		"GET / HTTP/1.1\r\nCookie: cut off before its end":     "GET / HTTP/1.1\r\nCookie: cut off before its end",
		"GET / HTTP/1.1\r\nCookie: \r\nAuthorization: a:b\r\n": "GET / HTTP/1.1\r\nCookie: xxx\r\nAuthorization: xxx\r\n",
	} {
		before := strings.Clone(request)
		require.Equal(t, want, string(maskCredentials([]byte(request), own)), "%q", request)
		require.Equal(t, before, request, "the record is not the archive's to change")
	}
}

// What is handed on to others opens nothing, and is whole: digest and length are of what is
// written. Who wants it all gets it, in files for the owner alone.
func TestCredentialsStayHere(t *testing.T) {
	page := answered("https://example.com/", "page")
	page.Exchange.Request = []byte("GET / HTTP/1.1\r\nHost: example.com\r\nAuthorization: Basic c2VjcmV0\r\nCookie: sid=secret\r\n\r\n")
	for _, keep := range []bool{false, true} {
		dir := t.TempDir()
		w := open(t, dir, Config{Credentials: keep})
		require.NoError(t, w.Write(page))
		require.NoError(t, w.Close())
		files, err := filepath.Glob(filepath.Join(dir, "*.gz"))
		require.NoError(t, err)
		request := requireRecords(t, files[0])[2]
		require.Equal(t, "request", request.Get("WARC-Type"))
		require.Equal(t, digestText(sum([]byte(request.block))), request.Get("WARC-Block-Digest"))
		info, err := os.Stat(files[0])
		require.NoError(t, err)
		if keep {
			require.Equal(t, string(page.Exchange.Request), request.block)
			require.Zero(t, info.Mode().Perm()&0o077, "for nobody else")
			continue
		}
		require.Equal(t, "GET / HTTP/1.1\r\nHost: example.com\r\nAuthorization: xxx\r\nCookie: xxx\r\n\r\n", request.block)
	}
	require.Contains(t, string(page.Exchange.Request), "c2VjcmV0")
}

// FuzzVeil: whatever a request is, no value of a secret field survives in its header, and
// nothing else is touched.
func FuzzVeil(f *testing.F) {
	f.Add("Cookie", "a=b", "X: y\r\n")
	f.Add("X", "Cookie: z", "\r\nCookie: in the body\r\n")
	f.Fuzz(func(t *testing.T, name, value, rest string) {
		if strings.ContainsAny(name+value, "\r\n:") || name == "" {
			t.Skip("no field")
		}
		first, secret := "GET / HTTP/1.1\r\n", (*redact.Redactor)(nil).SecretHeader(name)
		got := string(maskCredentials([]byte(first+name+": "+value+"\r\n"+rest), nil))
		want := first + name + ": " + value + "\r\n"
		if secret {
			want = first + name + ": xxx\r\n"
		}
		require.True(t, strings.HasPrefix(got, want), "%q", got)
		require.Equal(t, strings.Count(first+rest, "\n")+1, strings.Count(got, "\n"))
	})
}

// A page that wants no copy to be shown is archived with that, or a note stands in its place.
func TestNoArchive(t *testing.T) {
	for _, obey := range []bool{false, true} {
		dir := t.TempDir()
		w := open(t, dir, Config{ObeyNoArchive: obey})
		page := answered("https://example.com/private", "page")
		page.Directives = []string{"noindex", "noarchive"}
		require.NoError(t, w.Write(answered("https://example.com/", "home")))
		require.NoError(t, w.Write(page))
		require.NoError(t, w.Write(answered("https://example.com/next", "page")))
		require.NoError(t, w.Close())
		all := requireRecords(t, filepath.Join(dir, names(t, dir)[1]))
		require.Len(t, page.Links, 1, "the record is not the archive's to change")
		note := "via: https://example.com/\r\nhopsFromSeed: LL\r\nfetchTimeMs: 1500\r\nrobots-directives: noindex, noarchive\r\n"
		if !obey {
			require.Equal(t, "iRqmRqmVqm", kinds(all))
			require.True(t, strings.HasPrefix(all[6].block, note), all[6].block)
			continue
		}
		require.Equal(t, "iRqmmRqm", kinds(all), "what others refer to is not what was left out")
		require.Equal(t, note, all[4].block)
		require.Equal(t, page.URL, all[4].Get("WARC-Target-URI"))
		require.Empty(t, all[4].Get("WARC-Concurrent-To"))
		require.Equal(t, []string{"https://example.com/", "https://example.com/next"}, answersIn(t, dir))
	}
}
