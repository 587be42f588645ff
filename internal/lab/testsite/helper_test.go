package testsite

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/treadlight/crawl/internal/clock/clocktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start is not on a whole second, so that rounding of HTTP dates shows.
var start = time.Date(2026, 1, 2, 3, 4, 5, 300_000_000, time.UTC)

type rig struct {
	t    testing.TB
	site *Site
	clk  *clocktest.Fake
	at   time.Duration
}

func newRig(t testing.TB, cfg Config) *rig {
	t.Helper()
	clk := clocktest.NewFake(start)
	cfg.Clock = clk
	site, err := New(cfg)
	require.NoError(t, err)
	return &rig{t: t, site: site, clk: clk}
}

func (r *rig) to(at time.Duration) {
	r.t.Helper()
	r.clk.Advance(at - r.at)
	r.at = at
}

// get returns the response of host 0 to a GET, or nil if the host cut the connection.
func (r *rig) get(path string) *httptest.ResponseRecorder { return r.do(http.MethodGet, path, 0) }

func (r *rig) do(method, path string, host int) (rec *httptest.ResponseRecorder) {
	r.t.Helper()
	defer func() {
		if p := recover(); p != nil {
			if err, ok := p.(error); !ok || !errors.Is(err, http.ErrAbortHandler) {
				panic(p)
			}
			rec = nil
		}
	}()
	rec = httptest.NewRecorder()
	r.site.Handler(host).ServeHTTP(rec, httptest.NewRequestWithContext(r.t.Context(), method, path, nil))
	return rec
}

func (r *rig) status(path string) string {
	rec := r.get(path)
	if rec == nil {
		return "reset"
	}
	return fmt.Sprint(rec.Code)
}

func (r *rig) report() HostReport { return r.site.Report().Hosts[0] }

func one(h Host) Config { return Config{Seed: 42, Hosts: []Host{h}} }

func (s *Site) addrs() []netip.AddrPort {
	addrs := make([]netip.AddrPort, len(s.hosts))
	for i, h := range s.hosts {
		addrs[i] = netip.AddrPortFrom(h.addr, uint16(s.portOf(h)))
	}
	return addrs
}
