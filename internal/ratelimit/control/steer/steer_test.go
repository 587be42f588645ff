package steer

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/treadlight/crawl/internal/ratelimit/control/controltest"
)

// The host's own quota may ask for less than the user's floor.
var anyOrder = controltest.AnyOrder(Maker(nil), func(rate, _, ceiling float64) bool { return rate > ceiling })

func TestAnyOrder(t *testing.T) { rapid.Check(t, anyOrder) }

func FuzzAnyOrder(f *testing.F) { f.Fuzz(rapid.MakeFuzz(anyOrder)) }

func TestSameHistorySamePlan(t *testing.T) { controltest.SameHistorySamePlan(t, Maker(nil)) }

// A crawl may keep a million hosts, so the state of each has to be small.
func TestHostsAreSmall(t *testing.T) {
	t.Logf("a host takes %d bytes, one that has refused %d more", unsafe.Sizeof(Steer{}), unsafe.Sizeof(pause{}))
	require.LessOrEqual(t, unsafe.Sizeof(Steer{}), uintptr(320))
}
