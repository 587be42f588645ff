package crawl

import (
	"context"
	"log/slog"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/assembly"
)

// Nothing that a program sets is lost on the way to what builds the crawl.
func TestConfigIsConvertedWhole(t *testing.T) {
	cfg := DefaultConfig()
	cfg.OnPage = func(context.Context, *Page) error { return nil }
	cfg.OnEvent, cfg.HandlersFollow = func(Event) {}, true
	cfg.Sinks, cfg.Archives = []Sink{nil}, []Sink{nil, nil}
	cfg.Kept, cfg.Join, cfg.Began, cfg.Version, cfg.Log = &State{&assembly.State{}}, true, time.Now(), "1", slog.Default()

	from, to := reflect.ValueOf(cfg), reflect.ValueOf(cfg.inner())
	for i := range from.NumField() {
		name := from.Type().Field(i).Name
		if name == "Router" { // a handler too
			continue
		}
		require.False(t, from.Field(i).IsZero(), "set %s here", name)
		require.True(t, to.FieldByName(name).IsValid(), name)
		require.False(t, to.FieldByName(name).IsZero(), "%s is lost", name)
	}
	for i := range to.NumField() {
		name := to.Type().Field(i).Name
		if name == "Dial" || name == "Lookup" { // for tests
			continue
		}
		require.True(t, from.FieldByName(name).IsValid(), "%s cannot be set", name)
	}
	require.Equal(t, cfg.Settings, cfg.inner().Settings)
	require.Same(t, cfg.Kept.inner, cfg.inner().Kept)
	require.Nil(t, Config{}.inner().Kept)
}
