package crawl

import (
	"context"
	"log/slog"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/assembly"
	"github.com/treadlight/crawl/record"
)

// Nothing that a program sets is lost on the way to what builds the crawl.
func TestOptionsAreConvertedWhole(t *testing.T) {
	o := Options{
		OnPage: func(context.Context, *Page) error { return nil }, OnEvent: func(Event) {}, HandlersFollow: true,
		Sinks: []record.Sink{nil}, Archives: []record.Sink{nil, nil}, State: &State{&assembly.State{}}, Join: true, Began: time.Now(), Version: "1", Log: slog.Default(),
	}
	cfg, err := o.inner()
	require.NoError(t, err)
	to := reflect.ValueOf(cfg)
	for i := range to.NumField() {
		switch name := to.Type().Field(i).Name; name {
		case "Dial", "Lookup": // for tests
		default:
			require.False(t, to.Field(i).IsZero(), "%s cannot be set", name)
		}
	}
	require.Same(t, o.State.inner, cfg.Kept)
	cfg, err = new(Options).inner()
	require.NoError(t, err)
	require.Nil(t, cfg.Kept)
	require.Equal(t, assembly.DefaultConfig(), cfg)
}
