package crawl

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/assembly"
	"github.com/treadlight/crawl/internal/pipeline"
	"github.com/treadlight/crawl/internal/ratelimit"
)

// fill sets all that there is to values that are not zero.
func fill(v reflect.Value, n *int64) {
	switch *n++; v.Kind() {
	case reflect.String:
		v.SetString("s")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(*n)
	case reflect.Uint8: // a name of few
		v.SetUint(1)
	case reflect.Uint64:
		v.SetUint(uint64(*n))
	case reflect.Float64:
		v.SetFloat(float64(*n) / 2)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), n)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(v.Index(0), n)
		fill(v.Index(1), n)
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("k"), reflect.ValueOf(*n))
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Unix(*n, 0).UTC()))
			return
		}
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i), n)
			}
		}
	}
}

// A program's snapshot has all that the command's lines have, by the same names.
func TestSnapshotIsWhole(t *testing.T) {
	var inner pipeline.Snapshot
	n := int64(0)
	fill(reflect.ValueOf(&inner).Elem(), &n)
	for _, s := range []pipeline.Snapshot{inner, {}} {
		want, err := json.Marshal(s)
		require.NoError(t, err)
		got, err := json.Marshal(assembly.Convert[Snapshot](&s))
		require.NoError(t, err)
		require.JSONEq(t, string(want), string(got))
	}
}

// What a state is in the way of is said in words of this package.
func TestStateErrorsAreOfPrograms(t *testing.T) {
	dir := t.TempDir()
	check := func(err error, is error, words string) {
		t.Helper()
		var e *StateError
		require.ErrorAs(t, err, &e)
		require.Equal(t, dir, e.Dir)
		require.ErrorIs(t, err, is)
		require.Contains(t, err.Error(), words)
		require.NotRegexp(t, `--[a-z]|'`, err.Error())
	}
	_, err := OpenState(StateConfig{Dir: dir})
	check(err, fs.ErrNotExist, "name the directory of Options.StateDir")
	c, err := New(Options{StateDir: dir, Politeness: PolitenessOptions{Retries: -1}})
	require.NoError(t, err)
	require.Error(t, c.Run(t.Context(), "http://127.0.0.1:1/"))
	_, err = New(Options{StateDir: dir})
	check(err, fs.ErrExist, "see what has changed since by OpenAgain")
}

// convertedWhole requires that a conversion loses no field: each has one of the same name, or of its other name, that
// is set and prints as it does.
func convertedWhole[A, B any](t *testing.T, names map[string]string) {
	t.Helper()
	from := reflect.New(reflect.TypeFor[A]()).Elem()
	n := int64(0)
	fill(from, &n)
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
	n := int64(0)
	fill(reflect.ValueOf(&e).Elem(), &n)
	require.Equal(t, e, assembly.Convert[ratelimit.Event](assembly.Convert[Event](&e)))
	require.Zero(t, assembly.Convert[ratelimit.Event](Event{Cause: "of another version"}))
}
