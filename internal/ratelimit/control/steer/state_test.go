package steer

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
)

// mostFields bounds the number of fields of the state: a reader of the package has to keep all of them in mind.
const mostFields = 80

// The state of a host has few fields over all parts. The constants do not count, since all hosts share them.
func TestStateIsSmall(t *testing.T) {
	counted := map[reflect.Type]int{}
	var count func(reflect.Type)
	count = func(typ reflect.Type) {
		for typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Array {
			typ = typ.Elem()
		}
		if _, done := counted[typ]; done || typ == reflect.TypeFor[Tuning]() {
			return
		}
		counted[typ] = 0
		for field := range typ.Fields() {
			if of := field.Type; isPart(of) {
				count(of)
			} else {
				counted[typ]++
			}
		}
	}
	count(reflect.TypeFor[Steer]())
	sum := 0
	for typ, n := range counted {
		t.Logf("%-12s %d", typ.Name(), n)
		sum += n
	}
	t.Logf("%d in all", sum)
	require.LessOrEqual(t, sum, mostFields)
}

// isPart reports whether a field is one of the parts, whose own fields are counted.
func isPart(of reflect.Type) bool {
	for of.Kind() == reflect.Pointer || of.Kind() == reflect.Array {
		of = of.Elem()
	}
	return of.Kind() == reflect.Struct && of.PkgPath() == reflect.TypeFor[Steer]().PkgPath()
}
