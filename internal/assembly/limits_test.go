package assembly

import (
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/config"
	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/limit"
)

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
	rc := limiterConfig(&s)
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
		if name := kind.Field(i).Name; name == "Remember" { // where it is kept, which is not the engine's
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
		require.NotEqual(t, limiterConfig(&usual), limiterConfig(&s), kind.Field(i).Name)
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
		_, err := ratelimit.New(limiterConfig(&s))
		require.NoError(t, err, kind)
	}
}
