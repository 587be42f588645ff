package control

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/ratelimit/estimate"
)

func config(t interface{ Fatal(args ...any) }) *Config {
	c := &Config{Increase: 0.1, Decrease: 0.5, Latency: time.Second, Degrade: 2}
	if err := c.Breaker.Validate(); err != nil {
		t.Fatal(err)
	}
	return c
}

func newWindow(t interface{ Fatal(args ...any) }) *estimate.Window {
	w, err := estimate.NewWindow(30*time.Second, 2*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	return &w
}

var stranger = Host{Start: 1, Floor: 0.1, Ceiling: 500}

func TestFind(t *testing.T) {
	for i, info := range Strategies() {
		require.Equal(t, info.Name, Names()[i])
		found, err := Find(info.Name)
		require.NoError(t, err)
		require.Equal(t, info.Help, found.Help)
		require.NotEmpty(t, info.Help, info.Name)
	}
	_, err := Find("guess")
	require.ErrorContains(t, err, `"guess": want one of steer, aimd, gradient, fixed`)
}
