package transport_test

import (
	"context"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/treadlight/crawl/resilience"
	"github.com/treadlight/crawl/transport"
)

func TestClientMaxBodyOfAllThereIs(t *testing.T) {
	c := newClient(t, transport.ClientConfig{MaxBody: math.MaxInt64, Transport: always(200, `{"a": 1}`)})
	var got map[string]int
	require.NoError(t, c.GetJSON(t.Context(), "http://a.test/", &got))
	require.Equal(t, map[string]int{"a": 1}, got)
}

// What net/http would leave out of the request is no setting.
func TestClientHeaderWithoutEffect(t *testing.T) {
	for _, name := range []string{"Host", "content-length", "Transfer-Encoding", "Trailer"} {
		_, err := transport.NewClient(transport.ClientConfig{Header: http.Header{name: {"1"}}})
		require.ErrorContains(t, err, name)
	}
}

// The case of a host's name makes it no other host.
func TestBaseRedirectToTheSameHost(t *testing.T) {
	var elsewhere string
	site := loopback(t, func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path == "/" {
			http.Redirect(w, req, elsewhere, http.StatusFound)
		}
	})
	elsewhere = strings.Replace(site.URL, "127.0.0.1", "localhost", 1) + "/there"
	c := newClient(t, transport.ClientConfig{})
	res, err := c.Get(t.Context(), strings.Replace(site.URL, "127.0.0.1", "LOCALHOST", 1)+"/")
	require.NoError(t, err)
	require.Empty(t, read(t, res))
}

// A request on its way in when Close comes has net/http keep connections again.
func TestBaseCloseBeforeALateRequest(t *testing.T) {
	release := make(chan struct{})
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = http.NewResponseController(w).Flush()
		<-release
	}))
	defer site.Close()
	before := goleak.IgnoreCurrent()
	b, err := transport.NewBase(transport.BaseConfig{})
	require.NoError(t, err)
	early, err := b.RoundTrip(get(t, site.URL))
	require.NoError(t, err)

	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
		GetConn: func(string) { require.NoError(t, b.Close()) }, // the request has passed the door
	})
	_, err = b.RoundTrip(newRequest(context.WithoutCancel(ctx), t, http.MethodGet, site.URL, http.NoBody))
	require.ErrorIs(t, err, resilience.ErrClosed)

	close(release)
	_, err = io.Copy(io.Discard, early.Body)
	require.NoError(t, err)
	require.NoError(t, early.Body.Close())
	goleak.VerifyNone(t, before)
}

// net/http takes Authorization off where a redirect leads away, but not every key is there.
func TestClientHeaderStaysAtHome(t *testing.T) {
	seen := make(map[string]http.Header)
	var asked []string
	rt := stub(func(req *http.Request) (*http.Response, error) {
		asked = append(asked, req.URL.String())
		seen[req.URL.String()] = req.Header
		h := http.Header{}
		status := http.StatusFound
		switch len(asked) {
		case 1:
			h.Set("Location", "http://b.test/")
		case 2:
			h.Set("Location", "https://a.test/")
		case 3:
			h.Set("Location", "http://a.test/back")
		default:
			status = http.StatusOK
		}
		return transport.NewResponse(req, status, h, nil), nil
	})
	checked := 0
	c := newClient(t, transport.ClientConfig{
		Transport: rt, BaseURL: "http://a.test/", Header: http.Header{"x-api-key": {"opens"}, "Accept": {"text/plain"}},
		CheckRedirect: func(req *http.Request, _ []*http.Request) error {
			checked++
			req.Header.Set("X-Checked", "1")
			return nil
		},
	})
	req := newRequest(t.Context(), t, http.MethodGet, "http://a.test/", nil)
	req.Header.Set("Accept", "the caller's own")
	res, err := c.Do(req)
	require.NoError(t, err)
	read(t, res)
	require.Equal(t, []string{"http://a.test/", "http://b.test/", "https://a.test/", "http://a.test/back"}, asked)
	for url, want := range map[string]string{asked[0]: "opens", asked[1]: "", asked[2]: "", asked[3]: "opens"} {
		require.Equal(t, want, seen[url].Get("X-Api-Key"), url)
		require.Equal(t, "the caller's own", seen[url].Get("Accept"), url)
	}
	require.Equal(t, "1", seen[asked[1]].Get("X-Checked"))
	require.Equal(t, 3, checked)
}

func TestClientFollowsTenRedirects(t *testing.T) {
	asked := 0
	c := newClient(t, transport.ClientConfig{Transport: stub(func(req *http.Request) (*http.Response, error) {
		asked++
		return transport.NewResponse(req, http.StatusFound, http.Header{"Location": {"/"}}, nil), nil
	})})
	res, err := c.Get(t.Context(), "http://a.test/")
	require.ErrorContains(t, err, "10 redirects")
	require.NoError(t, res.Body.Close())
	require.Equal(t, 10, asked)
}
