package control_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/treadlight/crawl/internal/ratelimit/control"
	"github.com/treadlight/crawl/internal/ratelimit/control/controltest"
)

// classic are the strategies that are tested here: all but the default, steer, which has a test of its own.
var classic = control.Strategies()[1:]

func anyOrder(t *rapid.T) {
	s := rapid.SampledFrom(classic).Draw(t, "strategy")
	controltest.AnyOrder(s.Make, func(rate, floor, ceiling float64) bool {
		return s.Learns && (rate < floor && rate < ceiling || rate > ceiling)
	})(t)
}

func TestAnyOrder(t *testing.T) { rapid.Check(t, anyOrder) }

func FuzzAnyOrder(f *testing.F) { f.Fuzz(rapid.MakeFuzz(anyOrder)) }

func TestSameHistorySamePlan(t *testing.T) {
	for _, s := range classic {
		require.NotNil(t, s.Make, s.Name)
		t.Run(s.Name, func(t *testing.T) { controltest.SameHistorySamePlan(t, s.Make) })
	}
}
