package render

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/chromedp/cdproto/fetch"
	"github.com/chromedp/cdproto/network"
	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/web/canonical"
	"github.com/treadlight/crawl/internal/web/rendering"
	"github.com/treadlight/crawl/internal/web/scripts"

	ourfetch "github.com/treadlight/crawl/internal/fetch"
)

type asker = func(context.Context, *rendering.Subrequest) (*ourfetch.Response, error)

// viewOf is a page that no browser has.
func viewOf(t *testing.T, page string, ask asker) *view {
	t.Helper()
	u := must(canonical.Parse(page))
	return &view{ctx: t.Context(), b: &browser{r: &Renderer{cache: newCache()}}, of: &rendering.Page{URL: u, Ask: ask}}
}

func request(method, url string, kind network.ResourceType, header ...any) *fetch.EventRequestPaused {
	h := network.Headers{}
	for i := 0; i < len(header); i += 2 {
		h[header[i].(string)] = header[i+1]
	}
	return &fetch.EventRequestPaused{Request: &network.Request{Method: method, URL: url, Headers: h}, ResourceType: kind}
}

// Half a script is no script, neither for the page that asks nor for those after it; what is kept has no cookies.
func TestWhatIsKept(t *testing.T) {
	s := &site{files: map[string]string{home: `<div id=root>none</div><script src=app.js></script>`}}
	r := open(t, rendering.Config{})
	page, asked := s.page(t, home), 0
	page.Ask = func(context.Context, *rendering.Subrequest) (*ourfetch.Response, error) {
		asked++
		resp := &ourfetch.Response{Status: 200, Header: http.Header{"Content-Type": {"text/javascript"}, "Set-Cookie": {"a=b"}}, Body: []byte(`root.textContent = "half";`)}
		if asked == 1 {
			return resp, io.ErrUnexpectedEOF
		}
		resp.Body = []byte(`root.textContent = "whole" + document.cookie`)
		return resp, nil
	}
	for _, want := range []string{">none<", ">whole<", ">whole<"} {
		got := rendered(t, r, page)
		require.Contains(t, string(got.HTML), want)
	}
	require.Equal(t, 2, asked)
}

// Pages that want the same script at one time ask for it once. If the one that asks is over, another one asks.
func TestPagesThatShareARequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, errDown := newCache(), errors.New("the host is down")
		type outcome struct {
			r   *reply
			err error
		}
		first, leave := context.WithCancel(t.Context())
		second, leave2 := context.WithCancel(t.Context())
		asked, answer := 0, make(chan error)
		get := func(ctx context.Context, key string) chan outcome {
			out := make(chan outcome, 1)
			go func() {
				r, err := c.get(ctx, key, func() (*reply, error) {
					asked++
					select {
					case <-ctx.Done():
						return nil, ctx.Err()
					case err := <-answer:
						return &reply{status: 200}, err
					}
				})
				out <- outcome{r, err}
			}()
			synctest.Wait()
			return out
		}
		a, b, d := get(first, "x"), get(second, "x"), get(t.Context(), "x")
		leave2()
		require.ErrorIs(t, (<-b).err, context.Canceled, "nobody waits longer than for the own page")
		leave()
		require.ErrorIs(t, (<-a).err, context.Canceled)
		synctest.Wait()
		answer <- nil
		got := <-d
		require.NoError(t, got.err)
		require.Equal(t, 200, got.r.status)
		require.Equal(t, 2, asked)

		e, f := get(t.Context(), "y"), get(t.Context(), "y")
		answer <- errDown
		require.ErrorIs(t, (<-e).err, errDown)
		require.ErrorIs(t, (<-f).err, errDown, "a failure is shared")
		require.Equal(t, 3, asked)
		require.Empty(t, c.asking)
	})
}

func TestLeftOut(t *testing.T) {
	const tracker, want = "https://www.mixpanel.com/", "Access-Control-Request-Method"
	for _, tt := range []struct {
		name, page string
		e          *fetch.EventRequestPaused
		why        string
	}{
		{"a tracker", "https://site.test/", request("GET", tracker, network.ResourceTypeScript), "trackers are left out"},
		{"of its own site", "https://mixpanel.com/", request("GET", tracker, network.ResourceTypeScript), ""},
		{"a preflight", "https://site.test/", request("OPTIONS", "https://api.site.test/", network.ResourceTypePreflight, want, "GET"), ""},
		{"of what is not sent", "https://site.test/", request("OPTIONS", "https://api.site.test/", network.ResourceTypePreflight, want, "PUT"), "PUT may change something"},
		{"of data of the site", "https://site.test/", request("OPTIONS", "https://api.site.test/", network.ResourceTypePreflight, want, "POST"), ""},
		{"of data of another", "https://site.test/", request("OPTIONS", "https://other.test/", network.ResourceTypePreflight, want, "POST"), "POST may change something"},
		{"no preflight", "https://site.test/", request("OPTIONS", "https://site.test/", network.ResourceTypeFetch), "OPTIONS may change something"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			u := must(canonical.Parse(tt.e.Request.URL))
			require.Equal(t, tt.why, viewOf(t, tt.page, nil).leftOut(tt.e, u))
		})
	}
}

// A page may use the data of another host of its site as that host says, and is read though it is to be saved.
func TestPreflight(t *testing.T) {
	const data = "https://api.site.test/data.json"
	s := &site{files: map[string]string{home: `<div id=root></div><script>
fetch("` + data + `", {headers: {"X-Key": "1"}}).then(r => r.json()).then(l => { root.textContent = l.join("+"); });</script>`}}
	r := open(t, rendering.Config{Steps: []scripts.Step{{Do: "wait", Selector: "#root:not(:empty)"}}})
	var methods []string
	page := s.page(t, home)
	page.Resp.Header.Set("Content-Disposition", "attachment; filename=x.html")
	page.Ask = func(_ context.Context, q *rendering.Subrequest) (*ourfetch.Response, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		methods = append(methods, strings.TrimSpace(q.Method+" "+q.Request.URL))
		if q.Method == http.MethodOptions && (!q.Anonymous || q.Header.Get("Access-Control-Request-Headers") != "x-key") {
			return &ourfetch.Response{Status: 400, Header: http.Header{}}, nil
		}
		return &ourfetch.Response{Status: 200, Body: []byte("[1,2]"), Header: http.Header{
			"Access-Control-Allow-Origin": {"https://site.test"}, "Access-Control-Allow-Headers": {"x-key"}, "Content-Type": {"application/json"},
		}}, nil
	}
	got := rendered(t, r, page)
	require.Contains(t, string(got.HTML), "1+2")
	require.Equal(t, []string{"OPTIONS " + data, data}, methods)
}
