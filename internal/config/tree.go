package config

import (
	"cmp"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"time"
)

// The table names settings by path and the structs hold them; this file is the only one that walks from
// one to the other. A path that leads nowhere is a mistake in the table and panics.

// at returns the settable struct field that a path names below root, a pointer to
// [Config] or [Host].
func at(root any, path string) reflect.Value {
	v := reflect.ValueOf(root).Elem()
	for name := range strings.SplitSeq(path, ".") {
		i, ok := places(v.Type())[strings.ReplaceAll(name, "_", "")]
		if !ok {
			panic(fmt.Sprintf("config: no field %q for %q", name, path))
		}
		v = v.Field(i)
	}
	return v
}

// byType is a map[string]int for each type of struct in the tree. To start takes a thousand paths.
var byType sync.Map

func places(of reflect.Type) map[string]int {
	if known, ok := byType.Load(of); ok {
		return known.(map[string]int)
	}
	all := make(map[string]int, of.NumField())
	for i := range of.NumField() {
		all[cmp.Or(of.Field(i).Tag.Get("yaml"), strings.ToLower(of.Field(i).Name))] = i
	}
	byType.Store(of, all)
	return all
}

func get(root any, path string) any { return widened(at(root, path)) }

func widened(v reflect.Value) any {
	switch x := v.Interface().(type) {
	case time.Duration, bool, float64, string, []string:
		return x
	}
	return v.Int()
}

// set stores a parsed value. It reports false when the value does not fit into the
// field, which only a computer with 32-bit integers sees.
func set(root any, path string, value any) bool {
	v := at(root, path)
	if n, ok := value.(int64); ok && v.OverflowInt(n) {
		return false
	}
	v.Set(reflect.ValueOf(value).Convert(v.Type()))
	return true
}

// Default is the configuration of a crawl whose user said nothing. It passes
// [Config.Validate], and each call returns a tree of its own.
func Default() Config {
	var c Config
	for _, f := range fields() {
		if !f.noStruct && f.kind != kindList {
			set(&c, f.path, f.bound(f.def))
		}
	}
	return c
}
