package control_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/treadlight/crawl/internal/ratelimit/control"
	"github.com/treadlight/crawl/internal/ratelimit/control/controltest"
)

// classic are the strategies that are tested here. Steer has a test of its own.
var classic = map[string]control.Maker{
	control.NameAIMD: control.AIMD, control.NameGradient: control.Gradient, control.NameFixed: control.Fixed,
}

func anyOrder(t *rapid.T) {
	name := rapid.SampledFrom(control.Names()[1:]).Draw(t, "strategy")
	controltest.AnyOrder(classic[name], func(rate, floor, ceiling float64) bool {
		return name != control.NameFixed && (rate < floor && rate < ceiling || rate > ceiling)
	})(t)
}

func TestAnyOrder(t *testing.T) { rapid.Check(t, anyOrder) }

func FuzzAnyOrder(f *testing.F) { f.Fuzz(rapid.MakeFuzz(anyOrder)) }

func TestSameHistorySamePlan(t *testing.T) {
	for name, maker := range classic {
		t.Run(name, func(t *testing.T) { controltest.SameHistorySamePlan(t, maker) })
	}
}
