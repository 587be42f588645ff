package console

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/treadlight/crawl/internal/clock/clocktest"
	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/observe/endpoint"
	"github.com/treadlight/crawl/internal/pipeline"
	"github.com/treadlight/crawl/internal/ratelimit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const token = "a secret of more than sixteen bytes"

// rig is a console over a crawl that is made up, on a clock that stands still.
type rig struct {
	*Console
	clk *clocktest.Fake

	mu        sync.Mutex // guards what follows
	snapshots int
	did       []string
	over      bool
	notReady  error
	shown     pipeline.Snapshot
	logged    bytes.Buffer
}

func (g *rig) do(what string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.did = append(g.did, what)
	return !g.over
}

// try is do of what may be wrong.
func (g *rig) try(what, host string) error {
	switch {
	case strings.Contains(host, " "):
		return errors.New("there is a space in it")
	case !g.do(what):
		return ErrGone
	}
	return nil
}

// Write takes the log.
func (g *rig) Write(p []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.logged.Write(p)
}

func (g *rig) log() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.logged.String()
}

func (g *rig) crawl() Crawl {
	return Crawl{
		Snapshot: func() pipeline.Snapshot {
			g.mu.Lock()
			defer g.mu.Unlock()
			g.snapshots++
			return g.shown
		},
		Host: func(name string) Host {
			if name != "a.test" {
				return Host{Host: name}
			}
			return Host{Host: name, Frontier: &frontier.HostState{Host: name, Queued: 7}, Limiter: &ratelimit.DomainSnapshot{Domain: name, FillRate: 2, CeilingRPS: 2}}
		},
		Ready:  func() error { return g.notReady },
		Paused: func() bool { return false },
		Pause:  func() bool { return g.do("pause") }, Resume: func() bool { return g.do("resume") },
		Stop:  func() { g.do("stop") },
		Block: func(host string) error { return g.try("block "+host, host) }, Unblock: func(host string) error { return g.try("unblock "+host, host) },
		SetCeiling: func(host string, rps float64) error { return g.try(fmt.Sprintf("ceiling %s %v", host, rps), host) },
		SetScope:   func(include, exclude []string) error { return g.try(fmt.Sprint("scope ", include, exclude), "") },
		Recent:     func() pipeline.Recent { return pipeline.Recent{} },
		EachHost: func(see func(frontier.HostState, ratelimit.Brief)) {
			g.mu.Lock()
			hosts := g.shown.Hosts
			g.mu.Unlock()
			for _, h := range hosts {
				see(h, ratelimit.Brief{FillRate: 2})
			}
		},
		Controls: func() Controls {
			return Controls{Blocked: []string{"b.test"}, Ceilings: map[string]float64{"a.test": 5}, Include: []string{}, Exclude: []string{"/x"}}
		},
		AddSeed: func(url string) (string, error) {
			if strings.Contains(url, " ") {
				return "", errors.New("there is a space in it")
			}
			if !g.do("seed " + url) {
				return "", ErrGone
			}
			return "https://" + url + "/", nil
		},
	}
}

// newRig makes a console at an address; a token makes it one for everybody.
func newRig(t *testing.T, address, token string, change func(*Config, *Crawl)) *rig {
	t.Helper()
	g := &rig{clk: clocktest.NewFake(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))}
	a, err := endpoint.ParseAddress(address)
	require.NoError(t, err)
	cfg := Config{Address: a, Token: token, Version: "1.2.3", Clock: g.clk, Log: slog.New(slog.NewTextHandler(g, nil))}
	crawl := g.crawl()
	if change != nil {
		change(&cfg, &crawl)
	}
	g.Console, err = New(cfg, crawl)
	require.NoError(t, err)
	return g
}

// ask sends a request with headers, each as "Name: value"; a Host too.
func (g *rig) ask(method, path, body string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(context.Background(), method, path, strings.NewReader(body))
	r.Host, r.RemoteAddr = "localhost:8080", "127.0.0.1:1234"
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		switch name {
		case "Host":
			r.Host = value
		case "From-Address":
			r.RemoteAddr = value
		default:
			r.Header.Set(name, value)
		}
	}
	w := httptest.NewRecorder()
	g.ServeHTTP(w, r)
	return w
}

const (
	isOrder = "Content-Type: application/json"
	bearer  = "Authorization: Bearer " + token
)

// value is a metric without labels, or with the one that is given.
func (g *rig) value(t *testing.T, metric string) string {
	t.Helper()
	for line := range strings.Lines(g.ask(http.MethodGet, "/metrics", "", bearer).Body.String()) {
		if v, ok := strings.CutPrefix(line, metric+" "); ok {
			return strings.TrimSpace(v)
		}
	}
	require.Fail(t, "no such metric", metric)
	return ""
}

// detail is the sentence of a problem.
func detail(t *testing.T, w *httptest.ResponseRecorder) string {
	t.Helper()
	require.Equal(t, "application/problem+json", w.Header().Get("Content-Type"))
	var p problem
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &p))
	require.Equal(t, w.Code, p.Status)
	return p.Detail
}
