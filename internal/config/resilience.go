package config

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/treadlight/crawl/internal/document"
	"github.com/treadlight/crawl/resilience/binder"
)

const (
	// resiliencePath is the path of the policies as a whole. They are no rows of the table: package binder has a table
	// of its own, with which it also reads the documents of clients.
	resiliencePath = "resilience"
	// resilienceRoot is the name of the section in such a document, which may be pasted into a configuration as it is.
	resilienceRoot = "Resilience"

	circuitKey = "circuit_breaker"
)

// circuitSettings maps keys of a circuit breaker to the settings that they are other names for. Every host has a
// circuit breaker of its own; one around all hosts would let a failing host block the others.
var circuitSettings = map[string]string{
	"failure_threshold": "ratelimit.consecutive_fail_threshold",
	"success_threshold": "ratelimit.half_open_probes",
	"break_seconds":     "ratelimit.open_state_duration",
}

// policies reads the section, after the rest of the file.
func (f *fileWalk) policies(e document.Entry) {
	m, err := binder.LoadNode(resiliencePath, e.Value)
	if ps, ok := errors.AsType[binder.Problems](err); ok {
		for _, p := range ps {
			f.report(p.Path, f.origin(p.Line), "%s", p.Text)
		}
		return
	}
	f.cfg.Resilience, f.origins[resiliencePath] = nil, f.origin(e.Line)
	if m.CircuitBreaker != nil {
		f.circuit(e.Value)
		m.CircuitBreaker = nil
	}
	if *m != (binder.Model{}) {
		f.cfg.Resilience = m
	}
}

func (f *fileWalk) circuit(n document.Node) {
	for _, e := range n.Keys {
		switch document.Snake(e.Key) {
		case resiliencePath: // the optional outermost key
			f.circuit(e.Value)
		case circuitKey:
			for _, key := range e.Value.Keys {
				if path := circuitSettings[document.Snake(key.Key)]; path != "" {
					f.circuitSetting(path, document.Snake(key.Key), key.Value)
				}
			}
		}
	}
}

func (f *fileWalk) circuitSetting(path, key string, n document.Node) {
	w := written{n.Text, f.origin(n.Line)}
	if row(path).kind == kindDuration {
		w.text += "s"
	}
	before, o := f.show(path), f.origins[path]
	f.store(path, w)
	if now := f.show(path); o.Source == fromFile && now != before {
		f.report(document.Join(resiliencePath, circuitKey+"."+key), w.from,
			"%s contradicts %s, which is %s [%s]; they are two names for one value, give one of them", now, path, before, o)
	}
}

// policies reports policies that a crawl does not have, although a client may.
func (c checker) policies() {
	m := c.cfg.Resilience
	if m == nil {
		return
	}
	for _, p := range []struct {
		name, why string
		there     bool
	}{
		{"hedging", "which has one request at a time under way for a URL; remove it (crawl.Client can have it)", m.Hedging != nil},
		{"fallback", "whose records are of what hosts have answered and of nothing made up; remove it (crawl.Client can have it)", m.Fallback != nil},
		{circuitKey, "which has one for each host; set that up in ratelimit", m.CircuitBreaker != nil},
	} {
		if p.there {
			c.report(document.Join(resiliencePath, p.name), c.origins[resiliencePath], "is not for a crawl, %s", p.why)
		}
	}
}

func policyTree(m *binder.Model) document.Node {
	if m == nil {
		return document.Node{Kind: document.Map}
	}
	data, err := m.MarshalJSON()
	if err == nil {
		var root document.Node
		if root, err = document.ParseJSON(data); err == nil {
			return rename(root.Keys[0].Value)
		}
	}
	panic(fmt.Sprintf("config: a model that cannot be written: %v", err)) // this cannot happen: the model was loaded
}

func rename(n document.Node) document.Node {
	for i := range n.Keys {
		n.Keys[i].Key = document.Snake(n.Keys[i].Key)
		n.Keys[i].Value = rename(n.Keys[i].Value)
	}
	return n
}

// diffPolicies returns the difference of policies. They are built at the start and hold requests in flight, so they are
// not live.
func diffPolicies(was, is *binder.Model) []Change {
	if reflect.DeepEqual(was, is) {
		return nil
	}
	return []Change{{Path: resiliencePath, Was: flow(policyTree(was), false), Is: flow(policyTree(is), false)}}
}
