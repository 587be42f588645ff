//go:build unix

package redis

import (
	"github.com/treadlight/crawl/internal/admission"
	"github.com/treadlight/crawl/internal/clock"
)

// SetTime has decisions take their time from clk instead of the server. Nothing expires there while a test runs.
func (r *Repository) SetTime(clk clock.Clock) {
	r.now = func() admission.Micros { return admission.MicrosOf(clk.Now()) }
}

// StoreKey is the key under which a plan is stored.
func StoreKey(plan, key string) string { return storeKey(plan, key) }

// Script is the text that servers run.
func Script() string { return script }

// Decode reads a reply.
func Decode(reply string, plans []admission.Plan) (now admission.Micros, taken int64, states []admission.State, err error) {
	a, err := decode(reply, plans)
	return a.now, a.taken, a.states, err
}
