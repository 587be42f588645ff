package crawl

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/assembly"
	"github.com/treadlight/crawl/internal/ratelimit"
)

func filled(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		if t, ok := reflect.TypeAssert[*time.Time](v.Addr()); ok {
			*t = time.Unix(1, 0)
			return
		}
		for _, field := range v.Fields() {
			if field.CanSet() {
				filled(field)
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		filled(v.Index(0))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		filled(v.Elem())
	case reflect.String:
		v.SetString("text")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Float64, reflect.Float32:
		v.SetFloat(1.5)
	case reflect.Int, reflect.Int64:
		v.SetInt(7)
	case reflect.Uint64, reflect.Uint8:
		v.SetUint(1)
	}
}

// convertedWhole requires that a conversion loses no field: each has one of the same name, or of its other name, that
// is set and prints as it does.
func convertedWhole[A, B any](t *testing.T, names map[string]string) {
	t.Helper()
	from := reflect.New(reflect.TypeFor[A]()).Elem()
	filled(from)
	to := reflect.ValueOf(assembly.Convert[B](from.Addr().Interface()))
	require.Equal(t, from.NumField(), to.NumField()+countUnexported(from.Type())-countUnexported(to.Type()), "%T and %T", from.Interface(), to.Interface())
	for i := range from.NumField() {
		f := from.Type().Field(i)
		if !f.IsExported() {
			continue
		}
		name := f.Name
		if other := names[name]; other != "" {
			name = other
		}
		got := to.FieldByName(name)
		require.True(t, got.IsValid(), "%T.%s", from.Interface(), name)
		require.False(t, got.IsZero(), "%T.%s is lost", from.Interface(), name)
		if k := got.Kind(); k != reflect.Slice && k != reflect.Pointer && k != reflect.Struct {
			require.Equal(t, fmt.Sprint(from.Field(i).Interface()), fmt.Sprint(got.Interface()), name)
		}
		if g, ok := to.Type().FieldByName(name); ok {
			require.Equal(t, f.Tag.Get("json"), g.Tag.Get("json"), "%T.%s", from.Interface(), name)
		}
	}
}

func countUnexported(t reflect.Type) (n int) {
	for f := range t.Fields() {
		if !f.IsExported() {
			n++
		}
	}
	return n
}

// The types that programs see have all that those behind them have, under the same names in JSON.
func TestConversionsLoseNothing(t *testing.T) {
	convertedWhole[ratelimit.Event, Event](t, nil)
	convertedWhole[ratelimit.CapSnapshot, CapSnapshot](t, nil)
	convertedWhole[ratelimit.DomainSnapshot, HostSnapshot](t, map[string]string{"Domain": "Host"})
	convertedWhole[ratelimit.LimiterSnapshot, LimiterSnapshot](t, nil)
	e := ratelimit.Event{}
	filled(reflect.ValueOf(&e).Elem())
	require.Equal(t, e, assembly.Convert[ratelimit.Event](assembly.Convert[Event](&e)))
	require.Zero(t, assembly.Convert[ratelimit.Event](Event{Cause: "of another version"}))
}
