package redis_test

import (
	"testing"

	"github.com/treadlight/crawl/internal/admission"
	"github.com/treadlight/crawl/internal/admission/admissiontest"
	"github.com/treadlight/crawl/internal/admission/redis"
)

// The suite compares every step with the pure functions, so this compares the script.
func TestConformance(t *testing.T) {
	for _, tc := range []struct {
		name string
		keys int
	}{{"each decision a trip", -1}, {"denials remembered", 0}} {
		t.Run(tc.name, func(t *testing.T) {
			onEach(t, func(t *testing.T, program program) {
				admissiontest.Run(t, func(t *testing.T, clk *admissiontest.Clock) admission.Repository {
					r := open(t, redis.Config{Keys: tc.keys, Clock: clk}, program.Shared(t).Addr)
					r.SetTime(clk)
					return r
				}, admissiontest.Options{})
			})
		})
	}
}
