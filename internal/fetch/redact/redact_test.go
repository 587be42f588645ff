package redact_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/fetch/redact"
)

func TestURL(t *testing.T) {
	for in, want := range map[string]string{
		"http://a.test/p?q=1#f":                               "http://a.test/p?q=1",
		"http://me:pw@a.test/p@x":                             "http://a.test/p@x",
		"http://me:p@w@a.test":                                "http://a.test",
		"http://me:pw@a.test?q=a@b":                           "http://a.test?q=a@b",
		"http://a.test/?a=1&api_key=2&b":                      "http://a.test/?a=1&api_key=xxx&b",
		"http://a.test/?Access_Token=t&x=a@b":                 "http://a.test/?Access_Token=xxx&x=a@b",
		"http://a.test/?p%61ssword=t&sid=1&code=2":            "http://a.test/?p%61ssword=xxx&sid=xxx&code=xxx",
		"http://a.test/?token":                                "http://a.test/?token",
		"http://a.test/?to=http%3A%2F%2Fb.test%2F%3Fcode%3D1": "http://a.test/?to=xxx",
		"http://a.test/?to=%253Fcode%253D1":                   "http://a.test/?to=xxx",
		"http://a.test/?to=token=1":                           "http://a.test/?to=xxx",
		"http://a.test/?to=http%3A%2F%2Fb.test%2F%3Fq%3D1":    "http://a.test/?to=http%3A%2F%2Fb.test%2F%3Fq%3D1",
		"nonsense": "nonsense",
		"http://a.test/" + strings.Repeat("x", 600): "http://a.test/" + strings.Repeat("x", 486) + "...",
	} {
		require.Equal(t, want, redact.URL(in))
	}
}

func TestText(t *testing.T) {
	var r *redact.Redactor
	for in, want := range map[string]string{
		`Get "http://me:pw@a.test/?token=t&q=1": EOF`: `Get "http://a.test/?token=xxx&q=1": EOF`,
		"/callback?code=123 was refused":              "/callback?code=xxx was refused",
		"<http://a.test/?q=1#access_token=t>; rel=me": "<http://a.test/?q=1#access_token=xxx>; rel=me",
		"a=b is no query":                             "a=b is no query",
		"x?to=%3Ftoken%3Dabc":                         "x?to=xxx",
		"mail me@a.test":                              "mail me@a.test",
		"":                                            "",
	} {
		require.Equal(t, want, r.Text(in))
	}
	require.Equal(t, "bad value xxx, and of", r.Text("bad value abcdef, and of", "abcdef", "of", ""))
}

func TestHeader(t *testing.T) {
	r := redact.New("X-Internal ")
	h := http.Header{"Content-Type": {"text/html"}, "Location": {"http://u:p@a.test/?token=1&q=2"}}
	want := http.Header{"Content-Type": {"text/html"}, "Location": {"http://a.test/?token=xxx&q=2"}}
	for _, name := range []string{
		"Authorization", "Proxy-Authorization", "Cookie", "Set-Cookie", "X-Api-Key", "X-Auth-Token", "X-Internal",
	} {
		h[name], want[name] = []string{"opens", "more"}, []string{"xxx", "xxx"}
	}
	require.Equal(t, want, r.Header(h))
	require.Equal(t, "opens", h.Get("Cookie"), "the original is left alone")
	require.False(t, (*redact.Redactor)(nil).SecretHeader("X-Internal"))
}

func TestSecretsOfRequest(t *testing.T) {
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://me:pass%20word@a.test/?token=a%2Fbc&q=plain", http.NoBody)
	require.NoError(t, err)
	req.Header = http.Header{"Authorization": {"Bearer abcdef"}, "Cookie": {"id=12345; theme=dark"}, "Accept": {"text/html"}}
	var r *redact.Redactor
	text := r.Text("abcdef 12345 pass word a%2Fbc a/bc plain text/html", r.Secrets(req)...)
	require.Equal(t, "xxx xxx xxx xxx xxx plain text/html", text)
	require.Empty(t, r.Secrets(&http.Request{}))
}

func TestTextMasksTheLongestFirst(t *testing.T) {
	var r *redact.Redactor
	require.Equal(t, "bad value xxx", r.Text("bad value 1234-opens", "1234", "1234-opens"))
}

// What has been redacted has nothing left to redact, and nobody is left in it.
func FuzzURL(f *testing.F) {
	f.Add("http://me:pw@a.test/p?token=1&q=2#f")
	f.Add("http://a.test/?to=http%3A%2F%2Fb.test%2F%3Fcode%3D1")
	f.Add("://@?a=b=c&&=#")
	f.Fuzz(func(t *testing.T, raw string) {
		once := redact.URL(raw)
		if twice := redact.URL(once); twice != once && !strings.HasSuffix(once, "...") {
			t.Fatalf("%q is %q, and then %q", raw, once, twice)
		}
		var r *redact.Redactor
		if text := r.Text(raw); r.Text(text) != text {
			t.Fatalf("Text(%q) is %q, and then %q", raw, text, r.Text(text))
		}
	})
}

// A password and a token never survive, wherever the text puts the URL.
func FuzzTextHidesSecrets(f *testing.F) {
	f.Add("Get \"", "\": EOF", "/p")
	f.Add("", "", "")
	f.Fuzz(func(t *testing.T, before, after, path string) {
		if strings.ContainsAny(path, " \t\r\n\"'`<>()[]{}|\\^?#&=@:/") || strings.Contains(before+after, "53cr3t") {
			return // not a path, or the secret given away from the start
		}
		var r *redact.Redactor
		text := r.Text(before + " http://me:53cr3t@a.test/" + path + "?token=53cr3t " + after)
		if strings.Contains(text, "53cr3t") {
			t.Fatalf("%q still has the secret", text)
		}
	})
}
