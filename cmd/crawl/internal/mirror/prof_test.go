package mirror

import (
	"context"
	"log/slog"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl"
	_ "github.com/treadlight/crawl/sqlite"
)

func TestProf(t *testing.T) {
	u := os.Getenv("PROF")
	if u == "" {
		t.Skip()
	}
	for range 4 {
		o := crawl.Options{PerHostMax: 5}
		o.Politeness.Strategy = "off"
		m, err := Open(Options{Dir: t.TempDir(), Seeds: []string{u}, Crawl: o, Log: slog.New(slog.DiscardHandler)})
		require.NoError(t, err)
		_, err = m.Run(context.Background())
		require.NoError(t, err)
		require.NoError(t, m.Close())
	}
}
