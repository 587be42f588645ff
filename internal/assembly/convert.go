package assembly

import (
	"cmp"
	"encoding"
	"reflect"
	"strings"
	"sync"
)

// Convert returns a T with those fields of a struct that T has, too, by their names in JSON, or by their own names if
// they have none there. What programs see of a type of ours is made by it. A name of ours, such as the cause of an
// event, is a text for programs; an unknown text is left out.
func Convert[T any](from any) (to T) {
	convert(reflect.ValueOf(&to).Elem(), reflect.Indirect(reflect.ValueOf(from)))
	return to
}

func convert(to, from reflect.Value) {
	switch kind := from.Kind(); {
	case to.Type() == from.Type():
		to.Set(from)
	case to.Kind() == reflect.String && kind != reflect.String:
		text, _ := from.Interface().(encoding.TextMarshaler).MarshalText() // cannot fail for a name
		to.SetString(string(text))
	case kind == reflect.String && to.Kind() != reflect.String:
		_ = to.Addr().Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(from.String())) // see Convert
	case kind == reflect.Struct:
		for _, at := range common(to.Type(), from.Type()) {
			convert(to.Field(at[0]), from.Field(at[1]))
		}
	case kind == reflect.Slice && !from.IsNil():
		to.Set(reflect.MakeSlice(to.Type(), from.Len(), from.Len()))
		for i := range from.Len() {
			convert(to.Index(i), from.Index(i))
		}
	case kind == reflect.Pointer && !from.IsNil():
		to.Set(reflect.New(to.Type().Elem()))
		convert(to.Elem(), from.Elem())
	case kind != reflect.Slice && kind != reflect.Pointer:
		to.Set(from.Convert(to.Type()))
	}
}

var commonFields sync.Map // of pairs of types, so that names are compared once

// common returns the indices in both types of the fields that both have.
func common(to, from reflect.Type) (all [][2]int) {
	pair := [2]reflect.Type{to, from}
	if known, ok := commonFields.Load(pair); ok {
		return known.([][2]int)
	}
	name := func(f reflect.StructField) string {
		inJSON, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		return cmp.Or(inJSON, f.Name)
	}
	for i := range from.NumField() {
		for j := range to.NumField() {
			if name(to.Field(j)) == name(from.Field(i)) {
				all = append(all, [2]int{j, i})
			}
		}
	}
	commonFields.Store(pair, all)
	return all
}
