package ratelimit

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Brief says what Inspect does.
func TestBrief(t *testing.T) {
	r := newRig(t, nil)
	_, known := r.Brief("new.test")
	require.False(t, known)
	r.Feedback("a.test", Feedback{StatusCode: 200, Latency: 30 * time.Millisecond})
	for _, domain := range []string{"a.test", "A.test:80", "new.test"} {
		d, wantKnown := r.Inspect(domain)
		b, known := r.Brief(domain)
		require.Equal(t, wantKnown, known, domain)
		require.Equal(t, Brief{d.FillRate, d.AvgLatencyMS, d.State}, b, domain)
	}
}
