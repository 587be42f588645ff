package telemetry

import (
	"testing"
	"time"

	"github.com/treadlight/crawl/internal/pipeline"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/ratelimit/outcome"
)

// gathered is the histograms by name, those with a label by name and value.
func gathered(t *testing.T, m *Meter) map[string]*dto.Histogram {
	t.Helper()
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(m.Collectors()...)
	families, err := r.Gather()
	require.NoError(t, err)
	all := make(map[string]*dto.Histogram)
	for _, f := range families {
		for _, each := range f.GetMetric() {
			name := f.GetName()
			for _, l := range each.GetLabel() {
				name += " " + l.GetValue()
			}
			all[name] = each.GetHistogram()
		}
	}
	return all
}

func TestMeter(t *testing.T) {
	m := New()
	m.Request(outcome.OK, time.Second, time.Second, 1)
	m.Took(pipeline.PermitWait, time.Second)
	for name, h := range gathered(t, m) {
		require.Zero(t, h.GetSampleCount(), "%s before Start", name)
	}
	require.False(t, m.On())
	m.Start()
	require.True(t, m.On())
	m.Request(outcome.OK, 20*time.Millisecond, 30*time.Millisecond, 5000)
	m.Request(outcome.OK, 40*time.Millisecond, 50*time.Millisecond, 0)
	m.Request(outcome.Timeout, 0, 30*time.Second, -1)
	m.Took(pipeline.PermitWait, 2*time.Millisecond)
	m.Took(pipeline.QueueWait, -time.Second) // a clock that went back
	m.Took(pipeline.DiscoveryTurn, time.Microsecond)
	m.Took(pipeline.OutputBatch, time.Minute)
	all := gathered(t, m)
	for name, want := range map[string]struct {
		n   uint64
		sum float64
	}{
		"treadlight_fetch_first_byte_seconds ok":    {2, .06},
		"treadlight_fetch_duration_seconds ok":      {2, .08},
		"treadlight_fetch_duration_seconds timeout": {1, 30},
		"treadlight_fetch_body_size_bytes":          {2, 5000},
		"treadlight_permit_wait_seconds":            {1, .002},
		"treadlight_queue_wait_seconds":             {1, 0},
		"treadlight_discovery_turn_seconds":         {1, .000001},
		"treadlight_output_batch_seconds":           {1, 60},
	} {
		h := all[name]
		require.NotNil(t, h, name)
		require.Equal(t, want.n, h.GetSampleCount(), name)
		require.InDelta(t, want.sum, h.GetSampleSum(), 1e-9, name)
		require.NotEmpty(t, h.GetBucket(), name)
		require.NotZero(t, h.GetSchema(), "%s has no native buckets", name)
	}
	require.Len(t, all, 8, "a class that has not come has no histogram")
}

// A crawl at which nobody can look has no Meter.
func TestNoMeter(t *testing.T) {
	var m *Meter
	m.Start()
	require.False(t, m.On())
	m.Request(outcome.OK, 1, 1, 1)
	m.Took(pipeline.PermitWait, 1)
	m.Took(pipeline.QueueWait, 1)
	m.Took(pipeline.DiscoveryTurn, 1)
	m.Took(pipeline.OutputBatch, 1)
	require.Empty(t, m.Collectors())
}

func TestNoAllocation(t *testing.T) {
	m := New()
	m.Start()
	observe := func() {
		m.Request(outcome.OK, 3*time.Millisecond, 4*time.Millisecond, 1234)
		m.Took(pipeline.PermitWait, time.Millisecond)
		m.Took(pipeline.QueueWait, time.Microsecond)
	}
	observe()
	require.Zero(t, testing.AllocsPerRun(100, observe))
}

// What a request costs: three observations of itself, its permit and its lease.
func BenchmarkRequest(b *testing.B) {
	for name, start := range map[string]bool{"off": false, "on": true} {
		b.Run(name, func(b *testing.B) {
			m := New()
			if start {
				m.Start()
			}
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for d := time.Duration(0); pb.Next(); d += 37 * time.Microsecond {
					d %= time.Second
					m.Request(outcome.OK, d, d, int64(d)>>10)
					m.Took(pipeline.PermitWait, d>>10)
					m.Took(pipeline.QueueWait, d>>10)
				}
			})
		})
	}
}
