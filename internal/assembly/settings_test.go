package assembly

import (
	"net/http"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/config"
	"github.com/treadlight/crawl/internal/fetch"
	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/limit"
)

func TestMaxInFlight(t *testing.T) {
	for _, tc := range []struct{ concurrency, files, want int }{
		{64, 0, 256}, {64, 1 << 20, 256}, {64, 512, 256}, {64, 400, 200}, {64, 100, 64}, {1, 1024, 4},
	} {
		require.Equal(t, tc.want, maxInFlight(tc.concurrency, tc.files), "%+v", tc)
	}
	require.NotZero(t, fetch.OpenFiles())
}

// What another process of a job brings is no seed of the user's.
func TestSeedsOfOtherProcessesOpenNothing(t *testing.T) {
	c, err := New(DefaultConfig())
	require.NoError(t, err)
	for _, url := range []string{"http://127.0.24.2:8080/", "http://localhost:8080/", "http://seed.test:8080/"} {
		c.hearSeed(url, 0)
	}
	require.False(t, c.named.addresses.Allows("127.0.24.2", netip.MustParseAddrPort("127.0.24.2:8080"), false))
	require.False(t, c.named.addresses.Allows("localhost", netip.MustParseAddrPort("127.0.0.1:8080"), false))
}

// Who joins with other settings is told each, and which of them can be changed for all.
func TestFleetTermsNameTheFix(t *testing.T) {
	err := &FleetError{Job: "news", Err: &frontier.TermsError{Job: "news", Diffs: []frontier.Diff{
		{Term: "engine", Job: "1", Here: "2"},
		{Term: "max_pages", Job: "20", Here: "50"},
		{Term: "max_time", Job: "", Here: "1h"},
		{Term: "ratelimit.global_rps", Job: "20", Here: ""},
	}}}
	require.EqualError(t, err, `the job news is crawled with other settings:
  engine: 1 there, 2 here: run the version of crawl that made the job
  max_pages: 20 there, 50 here; 'crawl fleet set --job news --max-pages N' changes it for all
  max_time: nothing there, 1h here
  ratelimit.global_rps: 20 there, nothing here
give the same settings, or name another job by --job`)
}

// Every limit that a user can set reaches the engine.
func TestLimitsReachTheEngine(t *testing.T) {
	s := DefaultConfig().Settings
	s.RateLimit.GlobalConcurrency, s.RateLimit.GlobalBytes, s.RateLimit.GlobalRPS = 7, 1<<20, 9
	s.Hosts = []config.Host{
		{
			Match: "a.test", InitialRPS: 1, MinRPS: 1, MaxRPS: 2, MaxInFlight: 3,
			Cap:   config.Cap{Kind: "sliding-window-log", Permits: 10, Per: time.Second},
			Quota: config.Cap{Permits: 5000, Per: 24 * time.Hour},
		},
		{Match: "b.test", InitialRPS: 1, MinRPS: 1, MaxRPS: 2, MinDelay: time.Second, Cap: config.Cap{Kind: "concurrency", Permits: 4}},
		{Match: "c.test", InitialRPS: 1, MinRPS: 1, MaxRPS: 2},
	}
	require.NoError(t, s.Validate())
	rc := LimiterConfig(&s)
	require.Equal(t, 7, rc.GlobalConcurrency)
	require.EqualValues(t, 1<<20, rc.GlobalBytes)
	require.EqualValues(t, 9, rc.GlobalRPS)
	require.Equal(t, []ratelimit.HostRule{
		{
			Match: "a.test", InitialRPS: 1, MinRPS: 1, MaxRPS: 2, MinDelay: -1, MaxInFlight: 3,
			Cap:   limit.Spec{Kind: limit.KindSlidingWindowLog, Permits: 10, Per: time.Second},
			Quota: limit.Spec{Permits: 5000, Per: 24 * time.Hour},
		},
		{Match: "b.test", InitialRPS: 1, MinRPS: 1, MaxRPS: 2, MinDelay: time.Second, Cap: limit.Spec{Kind: limit.KindConcurrency, Permits: 4}},
		{Match: "c.test", InitialRPS: 1, MinRPS: 1, MaxRPS: 2, MinDelay: -1},
	}, rc.Hosts)
	_, err := ratelimit.New(rc)
	require.NoError(t, err)
}

// Each setting of pace makes another engine, so that none is without effect.
func TestEachSettingOfPaceReachesTheEngine(t *testing.T) {
	usual := DefaultConfig().Settings
	kind := reflect.TypeOf(usual.RateLimit)
	for i := range kind.NumField() {
		if name := kind.Field(i).Name; name == "Remember" || strings.HasPrefix(name, "Retry") { // of the place where it is kept, and of the pipeline
			continue
		}
		s := DefaultConfig().Settings
		switch f := reflect.ValueOf(&s.RateLimit).Elem().Field(i); f.Kind() {
		case reflect.Int, reflect.Int64:
			f.SetInt(f.Int() + 1)
		case reflect.Float64:
			f.SetFloat(f.Float() + 1)
		case reflect.String:
			f.SetString("aimd")
		default:
			t.Fatalf("%s is a %v: say here how to change it", kind.Field(i).Name, f.Kind())
		}
		require.NotEqual(t, LimiterConfig(&usual), LimiterConfig(&s), kind.Field(i).Name)
	}
}

// The words of the configuration are those of the limiters.
func TestKindsOfCapsAreTheLimiters(t *testing.T) {
	for _, kind := range limit.Kinds() {
		s := DefaultConfig().Settings
		c := config.Cap{Kind: string(kind), Permits: 2, Per: time.Second}
		if kind == limit.KindConcurrency {
			c.Per = 0
		}
		s.Hosts = []config.Host{{Match: "a.test", InitialRPS: 1, MinRPS: 1, MaxRPS: 2, Cap: c}}
		require.NoError(t, s.Validate(), kind)
		_, err := ratelimit.New(LimiterConfig(&s))
		require.NoError(t, err, kind)
	}
}

// What nobody asked for is not in the way of requests.
func TestNothingAroundRequestsByDefault(t *testing.T) {
	for yaml, want := range map[string][2]bool{
		"":                                  {false, false},
		"resilience: {circuit_breaker: {}}": {false, false},
		"resilience: {retry: {}}":           {false, true},
		"resilience: {timeout: {}}":         {true, false},
		"resilience: {bulkhead: {}}":        {true, false},
	} {
		loaded, err := config.Load(config.Sources{File: "crawl.yaml", Reader: strings.NewReader(yaml)})
		require.NoError(t, err)
		c, err := New(Config{Settings: loaded.Config})
		require.NoError(t, err)
		fc := fetchConfig(c)
		require.Equal(t, want, [2]bool{fc.Chain != nil, fc.Repeating != nil}, yaml)
	}
}

// Whoever asks for it has panics as they are.
func TestPanicsMayEndTheProgram(t *testing.T) {
	boom := func() error { panic("boom") }
	require.PanicsWithValue(t, "boom", func() { _ = guard{panics: true}.call("OnRequest", boom) })
	require.EqualError(t, guard{}.call("OnRequest", boom), "panic: boom")
	c := Config{Own: Own{OnRequest: func(*http.Request) error { return boom() }}}
	c.Panics = true
	require.NoError(t, c.Embed("Options"))
	require.PanicsWithValue(t, "boom", func() { _ = c.OnRequest(nil) })
}
