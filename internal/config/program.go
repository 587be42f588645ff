package config

import (
	"reflect"
	"slices"
	"strings"

	"github.com/treadlight/crawl/internal/document"
)

// A Go program has settings in structs of its own, whose fields name the settings with a tag: `set:"fetch.timeout"`. In
// these structs the zero value means the default of each setting, a number below zero means a setting of zero, and a
// bool is the opposite of a setting that is true by default. The package crawl has such structs; they are generated,
// see [WriteProgram].

const tagName = "set"

// FromProgram returns the configuration that a program's structs describe, and warnings. Settings that are left out are
// adjusted to those that are not, as with [Load]. The error is a [Problems]. Paths and texts name the fields, with the
// name root in front.
func FromProgram(root string, options any) (c Config, warnings []string, err error) {
	l := loader{newTree(Default())}
	for _, f := range fields() {
		l.origins[f.path] = Origin{Source: fromDefault}
	}
	l.takeProgram("", reflect.Indirect(reflect.ValueOf(options)))
	l.settle()
	check := checker(l)
	check.all()
	for i := range l.problems {
		p := &l.problems[i]
		if f := row(withoutItem(p.Path)); f != nil && f.zero != "" && f.def != "0" {
			p.Text = strings.Replace(p.Text, "or 0 for ", "or a negative number for ", 1)
		}
		p.Path, p.Text = root+"."+ProgramField(p.Path), InProgram(root, p.Text)
	}
	if err := l.err(); err != nil {
		return Config{}, nil, err
	}
	check.warnings(nil)
	for _, w := range l.tree.warnings {
		warnings = append(warnings, InProgram(root, w))
	}
	return l.cfg, warnings, nil
}

// takeProgram stores the values of a struct's fields, whose paths begin with base.
func (l loader) takeProgram(base string, v reflect.Value) {
	for i := range v.NumField() {
		field, tag := v.Field(i), v.Type().Field(i).Tag.Get(tagName)
		switch {
		case tag == hostsPath && field.Len() == 0: // empty is the default
		case tag == hostsPath:
			l.cfg.Hosts, l.origins[hostsPath] = make([]Host, field.Len()), Origin{}
			for i := range field.Len() {
				l.takeProgram(document.Item(hostsPath, i), field.Index(i))
			}
		case tag == resiliencePath:
			at(&l.cfg, resiliencePath).Set(field)
		case field.Kind() == reflect.Struct:
			l.takeProgram(document.Join(base, tag), field)
		case tag != "":
			l.takeValue(document.Join(base, tag), field)
		}
	}
}

func (l loader) takeValue(path string, v reflect.Value) {
	f := row(path)
	if f.kind == kindList && v.IsNil() || f.kind != kindList && v.IsZero() {
		return
	}
	value := widened(v)
	switch x, isNumber := number(value); {
	case f.kind == kindBool && f.def == "true":
		value = false
	case isNumber && x < 0 && f.zeroAllowed():
		value = f.bound("0")
	}
	l.set(path, value)
	l.origins[path] = Origin{}
}

// zeroAllowed reports whether zero is a valid value of a number, and does not just mean that none is given.
func (f *field) zeroAllowed() bool { return f.zero != "" || f.inRange(f.bound("0")) == nil }

// ToProgram stores a valid configuration in a program's structs, so that [FromProgram] returns the same configuration
// for them. Fields without a tag stay as they are.
func ToProgram(c *Config, options any) { giveProgram(c, "", reflect.ValueOf(options).Elem()) }

func giveProgram(root any, base string, v reflect.Value) {
	for i := range v.NumField() {
		field, tag := v.Field(i), v.Type().Field(i).Tag.Get(tagName)
		switch {
		case tag == hostsPath:
			hosts := root.(*Config).Hosts
			field.Set(reflect.MakeSlice(field.Type(), len(hosts), len(hosts)))
			for i := range hosts {
				giveProgram(&hosts[i], "", field.Index(i))
			}
			if len(hosts) == 0 {
				field.SetZero()
			}
		case tag == resiliencePath:
			field.Set(at(root, tag))
		case field.Kind() == reflect.Struct:
			giveProgram(root, document.Join(base, tag), field)
		case tag != "":
			giveValue(root, document.Join(base, tag), field)
		}
	}
}

func giveValue(root any, path string, to reflect.Value) {
	rows := fields()
	_, ofHost := root.(*Host)
	if ofHost {
		rows = hostFields()
	}
	f, v := find(rows, path), at(root, path)
	value := widened(v)
	x, isNumber := number(value)
	switch {
	case f.kind == kindBool:
		to.SetBool(v.Bool() != (f.def == "true"))
	case !ofHost && f.kind != kindList && value == f.bound(f.def), ofHost && !slices.Contains(hostKeys, path) && v.IsZero():
		to.SetZero()
	case isNumber && x == 0:
		to.Set(reflect.ValueOf(-1).Convert(to.Type()))
	default:
		to.Set(v.Convert(to.Type()))
	}
}

// ofRequests are the settings of politeness that concern the requests of one crawl or client, and not the rate of a
// host. ratelimit.max_retry_after concerns both.
var ofRequests = []string{
	"robots.enabled", "robots.max_crawl_delay", "ratelimit.retry_max_attempts", "ratelimit.retry_base_delay", "ratelimit.retry_max_delay",
	"headers", "auth", "proxy", "cert", "key",
}

// SetPoliteness returns the first field of a program's politeness that is set and concerns the rate of hosts, and the
// first that concerns requests; empty for none.
func SetPoliteness(options any) (rate, request string) {
	note := func(base string, v reflect.Value) {
		for field, value := range v.Fields() {
			tag := field.Tag.Get(tagName)
			switch own := slices.Contains(ofRequests, tag); {
			case value.IsZero() || tag == hostsPath || tag == hostMatch.path || tag == "ratelimit.max_retry_after":
			case own && request == "":
				request = base + field.Name
			case !own && rate == "":
				rate = base + field.Name
			}
		}
	}
	v := reflect.Indirect(reflect.ValueOf(options))
	note("", v)
	hosts := v.FieldByName("Hosts")
	for i := range hosts.Len() {
		note(document.Item("Hosts", i)+".", hosts.Index(i))
	}
	return rate, request
}
