package binder

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/treadlight/crawl/internal/fetch/resilience"
)

// LoadSection is [Load] of one group of a larger document, such as an application's
// settings. section is the group's name or, of one within others, their names with colons
// between: "Clients:Payments". What stands beside it is ignored. The errors name paths from
// the top.
func LoadSection(data []byte, section string) (*Model, error) {
	n, path, err := sectionOf(data, section)
	return finish(n, err, path)
}

// LoadNamed is the documents that a group of a larger one has by name: with section
// "Policies", {"Policies": {"search": {"Timeout": {}}, "payments": {"Retry": {}}}} is two.
// Every error is [Problems] with all that is wrong.
func LoadNamed(data []byte, section string) (map[string]*Model, error) {
	n, path, err := sectionOf(data, section)
	if err == nil && n.Kind != Map {
		err = Problem{Line: n.Line, Text: fmt.Sprintf("%s%s instead of a group of documents by name", subject(path), n.Kind)}
	}
	if err != nil {
		_, err = finish(n, err, path)
		return nil, err
	}
	models := make(map[string]*Model, len(n.Keys))
	var all Problems
	for _, e := range n.Keys {
		at := join(path, name(e.Key))
		if models[e.Key] != nil {
			all = append(all, Problem{Path: at, Line: e.Line, Text: "is there already; remove one of the two"})
			continue
		}
		m, err := finish(e.Value, nil, at)
		if problems, ok := errors.AsType[Problems](err); ok {
			all = append(all, problems...)
			continue
		}
		models[e.Key] = m
	}
	if len(all) > 0 {
		return nil, all[:min(len(all), problemsMax)]
	}
	return models, nil
}

// sectionOf finds a group, and where it stands.
func sectionOf(data []byte, section string) (n Node, path string, err error) {
	if n, err = parse(data); err != nil {
		return n, "", err
	}
	for key := range strings.SplitSeq(section, ":") {
		var keys []string
		i := slices.IndexFunc(n.Keys, func(e Entry) bool { keys = append(keys, e.Key); return e.Key == key })
		if i < 0 {
			return n, path, Problem{Line: n.Line, Text: fmt.Sprintf("there is no group %s here; there are %q", quote(key), keys)}
		}
		path, n = join(path, name(key)), n.Keys[i].Value
	}
	return n, path, nil
}

// BindAll builds the policies of documents and registers each under its name, to be found by
// [resilience.Lookup] with T. options is asked once for each name; nil means the zero Options.
// The registry closes what it holds. An error names the document, and nothing is left open.
func BindAll[T any](models map[string]*Model, options func(name string) Options[T]) (*resilience.Registry, error) {
	r := new(resilience.Registry)
	for _, name := range slices.Sorted(maps.Keys(models)) {
		var o Options[T]
		if options != nil {
			o = options(name)
		}
		p, err := Bind(models[name], o)
		if err == nil {
			err = resilience.Register[T](r, name, p)
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w", name, err), r.Close())
		}
	}
	return r, nil
}
