package integration_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/internal/lab/fetchtest"
	"github.com/treadlight/crawl/limit"
	"github.com/treadlight/crawl/resilience"
	"github.com/treadlight/crawl/transport"
)

// politeClient is a client over hosts in memory, for the time of a bubble.
func politeClient(t *testing.T, cfg crawl.ClientConfig, hosts map[string]http.Handler) (*crawl.Client, *fetchtest.Net) {
	t.Helper()
	site := fetchtest.Serve(t, hosts)
	base := &http.Transport{DialContext: site.DialContext}
	t.Cleanup(base.CloseIdleConnections)
	cfg.Transport = base
	c, err := crawl.NewClient(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c, site
}

func fetchText(t *testing.T, c *crawl.Client, url string) string {
	t.Helper()
	res, err := c.Get(url)
	require.NoError(t, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return string(text)
}

// A client that is asked for all it can give finds a limit that nobody has told it of, and
// stays under it: ten minutes of the bubble's time, of which the second five are judged.
func TestClientKeepsUnderAHiddenLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rate = 8 // per second
		l, err := limit.New(limit.Spec{Kind: limit.KindTokenBucket, Permits: rate, Per: time.Second})
		require.NoError(t, err)
		c, _ := politeClient(t, crawl.ClientConfig{Politeness: crawl.PolitenessOptions{MaxRPS: 100}}, map[string]http.Handler{"a.test": limited(t, l, "")})
		begun := time.Now()
		var admitted, refused atomic.Int64
		var users sync.WaitGroup
		for range 4 {
			users.Go(func() {
				for time.Since(begun) < 10*time.Minute {
					res, err := c.Get("http://a.test/")
					if err != nil {
						t.Error(err)
						return
					}
					transport.Discard(res)
					switch {
					case time.Since(begun) < 5*time.Minute:
					case res.StatusCode == http.StatusOK:
						admitted.Add(1)
					default:
						refused.Add(1)
					}
				}
			})
		}
		users.Wait()
		used, refusals := float64(admitted.Load())/(5*60*rate), float64(refused.Load())/float64(admitted.Load()+refused.Load())
		t.Logf("used %.1f %% of the limit, %.2f %% refused; %s", 100*used, 100*refusals, c.Snapshot().Top[0].Reason)
		require.GreaterOrEqual(t, used, 0.9)
		require.LessOrEqual(t, refusals, 0.01)
	})
}

func TestClientWaitsItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		page := http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) { _, _ = io.WriteString(w, req.UserAgent()) })
		c, site := politeClient(t, crawl.ClientConfig{Politeness: crawl.PolitenessOptions{Strategy: "fixed", InitialRPS: 2, MaxRPS: 2}}, map[string]http.Handler{"a.test": page, "b.test": page})
		for range 5 {
			require.Equal(t, "Treadlight (+https://github.com/treadlight/crawl)", fetchText(t, c, "http://a.test/"))
			fetchText(t, c, "http://b.test/")
		}
		require.Equal(t, 500*time.Millisecond, site.MinGap("a.test"))
		require.EqualValues(t, 10, c.Snapshot().Requests)

		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://a.test/", http.NoBody)
		require.NoError(t, err)
		req.Header.Set("User-Agent", "mine")
		res, err := c.Do(req)
		require.NoError(t, err)
		text, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.Equal(t, "mine", string(text))
	})
}

// Retry-After holds for every request to the host, and a deadline that comes before its end fails one at once.
func TestClientObeysRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int32
		c, site := politeClient(t, crawl.ClientConfig{Politeness: crawl.PolitenessOptions{InitialRPS: 10}}, map[string]http.Handler{
			"a.test": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if asked.Add(1) == 1 {
					w.Header().Set("Retry-After", "30")
					w.WriteHeader(http.StatusServiceUnavailable)
				}
			}),
		})
		begun := time.Now()
		first := make(chan struct{})
		go func() {
			fetchText(t, c, "http://a.test/")
			close(first)
		}()
		time.Sleep(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://a.test/", http.NoBody)
		require.NoError(t, err)
		_, err = c.Do(req)
		rejected, ok := errors.AsType[*transport.RejectedError](err)
		require.True(t, ok, "%v", err)
		require.Equal(t, "a.test", rejected.Host)
		require.Equal(t, time.Second, time.Since(begun), "at once")
		<-first
		require.GreaterOrEqual(t, site.MinGap("a.test"), 30*time.Second)
		require.EqualValues(t, 2, asked.Load())
	})
}

// A request that meets an open circuit between its tries says how the last one failed.
func TestClientKeepsTheCauseWhenACircuitOpens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := politeClient(t, crawl.ClientConfig{
			Politeness: crawl.PolitenessOptions{InitialRPS: 10},
			Resilience: []byte(`{"Retry": {"MaxRetries": 10}, "CircuitBreaker": {"FailureThreshold": 2, "BreakSeconds": 600}}`),
		}, map[string]http.Handler{"a.test": status(http.StatusServiceUnavailable)})
		_, err := c.Get("http://a.test/")
		require.ErrorContains(t, err, "circuit")
		require.ErrorContains(t, err, "HTTP 503 Service Unavailable")
	})
}

func TestClientDocument(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines bytes.Buffer
		c, site := politeClient(t, crawl.ClientConfig{
			Politeness: crawl.PolitenessOptions{InitialRPS: 10}, Resilience: []byte(`{"Retry": {"MaxRetries": 1}, "Fallback": {"StatusCodes": [503]}}`),
			Fallback: func(req *http.Request, res *http.Response, _ error) (*http.Response, error) {
				return transport.NewResponse(req, http.StatusOK, nil, []byte("instead of "+res.Status)), nil
			},
			Log: slog.New(slog.NewTextHandler(&lines, nil)),
		}, map[string]http.Handler{"a.test": status(http.StatusServiceUnavailable)})
		require.Equal(t, "instead of 503 Service Unavailable", fetchText(t, c, "http://a.test/?token=secret"))
		require.Equal(t, 2, site.Count("a.test", ""))
		require.Contains(t, lines.String(), "attempts=2")
		require.NotContains(t, lines.String(), "secret")
	})
}

func TestClientFollowsItsFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "resilience.json")
	write := func(doc string) { require.NoError(t, os.WriteFile(path, []byte(doc), 0o600)) }
	synctest.Test(t, func(t *testing.T) {
		write(`{"Retry": {"MaxRetries": 0}}`)
		var lines bytes.Buffer // without OnReload it is logged
		logs, _ := politeClient(t, crawl.ClientConfig{ResilienceFile: path, Log: slog.New(slog.NewTextHandler(&lines, nil))}, nil)
		var told []string
		var asked atomic.Int32
		c, site := politeClient(t, crawl.ClientConfig{
			Politeness: crawl.PolitenessOptions{InitialRPS: 10}, ResilienceFile: path,
			OnReload: func(err error) { told = append(told, errString(err)) },
		}, map[string]http.Handler{"a.test": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if asked.Add(1) < 3 {
				w.WriteHeader(http.StatusBadGateway)
			}
		})})
		fetchText(t, c, "http://a.test/")
		require.Equal(t, 1, site.Count("a.test", ""))
		write(`{"Retry": {"MaxRetries": 2}}`)
		time.Sleep(6 * time.Second)
		fetchText(t, c, "http://a.test/")
		require.Equal(t, 3, site.Count("a.test", ""))
		write(`{"Retry": {"MaxRetry": 2}}`)
		time.Sleep(6 * time.Second)
		require.NoError(t, c.Close())
		require.Equal(t, []string{"ok", "Retry.MaxRetry: is not a setting; did you mean MaxRetries? [line 1]"}, told)
		require.NoError(t, logs.Close())
		require.Contains(t, lines.String(), `level=INFO msg="new policies are in use"`)
		require.Contains(t, lines.String(), `level=WARN msg="the new policies are not used"`)
	})
}

func errString(err error) string {
	if err == nil {
		return "ok"
	}
	return err.Error()
}

// Close ends what waits for its turn and what is under way, and leaves nothing behind: no goroutine, no connection.
func TestClientClose(t *testing.T) {
	before := goleak.IgnoreCurrent()
	arrived := make(chan struct{})
	site := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		if req.URL.Path == "/hangs" {
			close(arrived)
			<-req.Context().Done()
		}
	}))
	c, err := crawl.NewClient(crawl.ClientConfig{Politeness: crawl.PolitenessOptions{Strategy: "fixed", InitialRPS: 1, MinRPS: 0.001, MinDelay: time.Hour}, AllowPrivate: true})
	require.NoError(t, err)
	failed := make(chan error)
	ask := func(path string) {
		_, err := c.Get(site.URL + path)
		failed <- err
	}
	go ask("/hangs")
	<-arrived
	go ask("/waits")
	for c.Snapshot().Waiting == 0 { // until it does
		time.Sleep(time.Millisecond)
	}
	require.NoError(t, c.Close())
	require.NoError(t, c.Close())
	for range 2 {
		require.ErrorIs(t, <-failed, crawl.ErrClientClosed)
	}
	body := &closeNote{Reader: strings.NewReader("x")}
	_, err = c.Post(site.URL, "text/plain", body)
	require.ErrorIs(t, err, crawl.ErrClientClosed)
	require.True(t, body.closed)
	c.CloseIdleConnections()
	site.Close()
	goleak.VerifyNone(t, before)
}

type closeNote struct {
	io.Reader
	closed bool
}

func (c *closeNote) Close() error {
	c.closed = true
	return nil
}

// What a program brings of its own: a limiter, a registry of circuits, and a listener.
func TestClientTakesLimitCircuitsAndHub(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		quota, err := limit.New(limit.Spec{Kind: limit.KindFixedWindow, Permits: 3, Per: time.Hour})
		require.NoError(t, err)
		defer quota.Close()
		circuits, err := resilience.NewBreakers(resilience.BreakersConfig{})
		require.NoError(t, err)
		hub := &resilience.Hub{}
		var heard []string
		resilience.Subscribe(hub, func(resilience.RetryEvent) { heard = append(heard, "retry") })
		resilience.Subscribe(hub, func(e resilience.CircuitEvent) { heard = append(heard, "circuit "+e.To.String()) })
		resilience.Subscribe(hub, func(resilience.RateLimitedEvent) { heard = append(heard, "limited") })
		var rejected int
		c, _ := politeClient(t, crawl.ClientConfig{
			Politeness: crawl.PolitenessOptions{MaxRPS: 100},
			Resilience: []byte(`{"Retry": {"MaxRetries": 1}, "CircuitBreaker": {"CircuitName": "api", "FailureThreshold": 2}}`),
			Limit: &transport.Policy{
				Limiter: quota, AcquireTimeout: transport.NowOrNever, OnRejected: func(*http.Request, error) { rejected++ },
			},
			Circuits: circuits, Hub: hub,
		}, map[string]http.Handler{
			"bad.test":  status(http.StatusBadGateway),
			"good.test": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "page") }),
		})
		require.Equal(t, "page", fetchText(t, c, "http://good.test/"))

		res, err := c.Get("http://bad.test/") // both tries fail, which opens the circuit
		require.NoError(t, err)
		require.Equal(t, 2, transport.Attempts(res))
		require.NoError(t, res.Body.Close())
		require.False(t, circuits.Healthy())
		_, err = c.Get("http://good.test/")
		require.ErrorIs(t, err, resilience.ErrOpen)

		api, ok := circuits.Lookup("api")
		require.True(t, ok)
		api.Reset()
		_, err = c.Get("http://good.test/") // three tries have taken the three permits
		require.ErrorIs(t, err, limit.ErrLimited)
		require.Equal(t, 1, rejected)
		require.NoError(t, hub.Close())
		require.Equal(t, []string{"retry", "circuit open", "circuit closed", "limited"}, heard)
	})
}

// The circuit of a host is open to whoever branches on it.
func TestClientTellsOpenCircuits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := politeClient(t, crawl.ClientConfig{Politeness: crawl.PolitenessOptions{Strategy: "aimd", MaxRPS: 100}, Resilience: []byte("{}")},
			map[string]http.Handler{"bad.test": status(http.StatusBadGateway)})
		asked := 0
		res, err := c.Get("http://bad.test/")
		for ; err == nil && asked < 5; asked++ {
			require.Equal(t, http.StatusBadGateway, res.StatusCode)
			require.NoError(t, res.Body.Close())
			res, err = c.Get("http://bad.test/")
		}
		require.Greater(t, asked, 1, "one failure opens no circuit")
		require.ErrorIs(t, err, crawl.ErrCircuitOpen)
	})
}

func TestClientTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := politeClient(t, crawl.ClientConfig{Timeout: 3 * time.Second}, map[string]http.Handler{
			"a.test": http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				w.(http.Flusher).Flush()
				<-req.Context().Done()
			}),
		})
		begun := time.Now()
		res, err := c.Get("http://a.test/")
		require.NoError(t, err)
		_, err = io.ReadAll(res.Body)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, 3*time.Second, time.Since(begun))
		require.NoError(t, res.Body.Close())
	})
}

func TestClientRefuses(t *testing.T) {
	shared, err := crawl.NewPoliteness(crawl.PolitenessOptions{})
	require.NoError(t, err)
	defer func() { require.NoError(t, shared.Close()) }()
	for want, cfg := range map[string]crawl.ClientConfig{
		"ClientConfig.Timeout is -1s: use a positive duration, or zero for none":                                             {Timeout: -time.Second},
		`ClientConfig.UserAgent "\n" cannot be a header value: remove control characters`:                                    {UserAgent: "\n"},
		"ClientConfig.Resilience and ResilienceFile are both set: remove one of them":                                        {Resilience: []byte("{}"), ResilienceFile: "x"},
		"ClientConfig.AllowPrivate is set beside a Transport, which it cannot change: remove one of them":                    {Transport: http.NewFileTransport(http.Dir(".")), AllowPrivate: true},
		"ClientConfig: Resilience: Timeout.Seconds: 0 is below 0.001; give a number of seconds from 0.001 to 86400 [line 1]": {Resilience: []byte(`{"Timeout": {"Seconds": 0}}`)},
		"ClientConfig: limit: transport: Policy.Limiter is nil: give a limiter or leave RateLimit out":                       {Limit: &transport.Policy{}},
		"ClientConfig: Resilience: the document is empty; write {} for no policy at all":                                     {Resilience: []byte{}},
	} {
		_, err := crawl.NewClient(cfg)
		require.EqualError(t, err, want)
	}
	for want, cfg := range map[string]crawl.ClientConfig{
		"ClientConfig.Politeness.MaxRPS":                      {Politeness: crawl.PolitenessOptions{MaxRPS: -1}},
		"ClientConfig.Politeness.IgnoreRobots is set":         {Politeness: crawl.PolitenessOptions{IgnoreRobots: true}},
		"ClientConfig.Politeness.Retries is set beside":       {Politeness: crawl.PolitenessOptions{Retries: 1}, Resilience: []byte("{}")},
		"ClientConfig.Politeness.MaxRPS is set beside":        {Politeness: crawl.PolitenessOptions{MaxRPS: 1}, Shared: shared},
		"Politeness.Hosts[0].MaxRPS is set beside":            {Politeness: crawl.PolitenessOptions{Hosts: []crawl.HostOptions{{Match: "a.test", MaxRPS: 1}}}, Shared: shared},
		"ClientConfig.Politeness.Hosts[0].Auth is for crawls": {Politeness: crawl.PolitenessOptions{Hosts: []crawl.HostOptions{{Match: "a.test", Auth: "bearer x"}}}},
		`UserAgent " x" begins with no name`:                  {UserAgent: " x", ObeyRobots: true},
	} {
		_, err := crawl.NewClient(cfg)
		require.ErrorContains(t, err, want)
	}
	_, err = crawl.NewClient(crawl.ClientConfig{ResilienceFile: filepath.Join(t.TempDir(), "none.json")})
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, "ClientConfig: ResilienceFile")
	_, err = crawl.NewClient(crawl.ClientConfig{Politeness: crawl.PolitenessOptions{Strategy: "hope"}})
	require.ErrorContains(t, err, "hope")
	_, err = crawl.NewClient(crawl.ClientConfig{Resilience: []byte(`{"Fallback": {}}`)})
	require.ErrorContains(t, err, "Fallback")
}

// One rate alone moves its neighbours that nobody has set.
func TestClientRates(t *testing.T) {
	for _, pace := range []crawl.PolitenessOptions{
		{InitialRPS: 50}, {MaxRPS: 0.05}, {MinRPS: 20}, {InitialRPS: 0.01}, {MinRPS: 2, MaxRPS: 3}, {},
	} {
		c, err := crawl.NewClient(crawl.ClientConfig{Politeness: pace})
		require.NoError(t, err)
		require.NoError(t, c.Close())
	}
}
