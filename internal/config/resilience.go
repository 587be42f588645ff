package config

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/treadlight/crawl/internal/fetch/resilience/binder"
)

const (
	// resiliencePath stands for the policies as a whole. They are no rows of the table:
	// package binder has one of its own, by which it also reads the documents of clients.
	resiliencePath = "resilience"
	// resilienceRoot is the name of the section in such a document, which may be pasted
	// into a configuration as it is.
	resilienceRoot = "Resilience"

	circuitPath = resiliencePath + ".circuit_breaker"
)

// policies reads the section of policies. One without a policy is none.
func (f *fileWalk) policies(e entry) {
	m, err := binder.LoadNode(resiliencePath, policyNode(e.value))
	if ps, ok := errors.AsType[binder.Problems](err); ok {
		for _, p := range ps {
			if refusedPolicies[policyOf(p.Path)] == "" {
				f.report(p.Path, f.origin(p.Line), "%s", p.Text)
			}
		}
		f.refusePolicies(e.value)
		return
	}
	f.cfg.Resilience = nil
	f.forget(resiliencePath + ".")
	f.origins[resiliencePath] = f.origin(e.line)
	if *m == (binder.Model{}) {
		return
	}
	f.cfg.Resilience = m
	f.policyOrigins(resiliencePath, e.value)
}

// refusedPolicies is why a crawl has not what a client may have.
var refusedPolicies = map[string]string{
	"hedging":  "is not for a crawl, which has one request at a time under way for a URL; remove it (crawl.Client can have it)",
	"fallback": "is not for a crawl, whose records are of what hosts have answered and of nothing made up; remove it (crawl.Client can have it)",
}

// policyOf is the policy that a path within the section is of.
func policyOf(path string) string {
	for name := range strings.SplitSeq(path, ".") {
		if name = snake(name); name != resiliencePath {
			return name
		}
	}
	return ""
}

// refusePolicies reports them in a section with mistakes, of which there is no model for
// checkPolicies to look at.
func (f *fileWalk) refusePolicies(n node) {
	for _, e := range n.keys {
		switch name := snake(e.key); {
		case name == resiliencePath: // the optional name around all
			f.refusePolicies(e.value)
		case refusedPolicies[name] != "":
			f.report(join(resiliencePath, name), f.origin(e.line), "%s", refusedPolicies[name])
		}
	}
}

// policyNode is a part of a file in the terms of package binder. The text of a scalar is
// left to the field it is for, as everywhere in a file.
func policyNode(n node) binder.Node {
	to := binder.Node{Line: n.line, Text: n.text}
	switch n.kind {
	case nodeNull:
	case nodeScalar:
		to.Kind = binder.Scalar
	case nodeMap:
		to.Kind = binder.Map
	case nodeList:
		to.Kind = binder.List
	}
	for _, e := range n.keys {
		to.Keys = append(to.Keys, binder.Entry{Key: e.key, Line: e.line, Value: policyNode(e.value)})
	}
	for _, item := range n.items {
		to.Items = append(to.Items, policyNode(item))
	}
	return to
}

// policyOrigins notes where the keys of a section without mistakes were written, by
// their names in YAML. Groups are noted apart: they are no settings, but may be wrong.
func (f *fileWalk) policyOrigins(path string, n node) {
	for _, e := range n.keys {
		below := path + "." + snake(e.key)
		switch {
		case path == resiliencePath && snake(e.key) == resiliencePath: // the optional name around all
			f.policyOrigins(path, e.value)
		case e.value.kind == nodeMap:
			f.groups[below] = f.origin(e.line)
			f.policyOrigins(below, e.value)
		default:
			f.origins[below] = f.origin(e.value.line)
		}
	}
}

// snake is a key of a JSON document as YAML has it: MaxDelayMs is max_delay_ms.
func snake(key string) string {
	var b strings.Builder
	for i, r := range key {
		if r >= 'A' && r <= 'Z' && i > 0 {
			b.WriteByte('_')
		}
		b.WriteRune(r)
	}
	return strings.ToLower(b.String())
}

// twin is a value of the circuit breaker that the engine has under another name: every
// host has a circuit there, and one more around all hosts would let one that fails hold
// up the others.
type twin struct {
	key, path string
	value     func(*binder.CircuitBreaker) any
	take      func(*binder.CircuitBreaker, any)
}

func twins() []twin {
	return []twin{
		{
			circuitPath + ".failure_threshold", "ratelimit.consecutive_fail_threshold",
			func(c *binder.CircuitBreaker) any { return int64(c.FailureThreshold) },
			func(c *binder.CircuitBreaker, v any) { c.FailureThreshold = int(v.(int64)) },
		},
		{
			circuitPath + ".success_threshold", "ratelimit.half_open_probes",
			func(c *binder.CircuitBreaker) any { return int64(c.SuccessThreshold) },
			func(c *binder.CircuitBreaker, v any) { c.SuccessThreshold = int(v.(int64)) },
		},
		{
			circuitPath + ".break_seconds", "ratelimit.open_state_duration",
			func(c *binder.CircuitBreaker) any { return c.Break },
			func(c *binder.CircuitBreaker, v any) { c.Break = v.(time.Duration) },
		},
	}
}

// settlePolicies gives every key of a policy its origin, and a circuit and the engine one
// mind: of two names for a value, the one that nobody wrote follows the other, and the
// engine's follows where nobody wrote either.
func (l *loader) settlePolicies() {
	if l.cfg.Resilience == nil {
		return
	}
	for path := range policyKeys(l.cfg.Resilience) {
		if l.origins[path] == (Origin{}) {
			l.origins[path] = Origin{Source: fromDefault}
		}
	}
	if l.cfg.Resilience.CircuitBreaker == nil {
		return
	}
	m, circuit := *l.cfg.Resilience, *l.cfg.Resilience.CircuitBreaker // others may share what was loaded
	for _, t := range twins() {
		switch {
		case l.bad[t.path]:
		case !l.origins[t.path].written():
			set(&l.cfg, t.path, t.value(&circuit))
			l.origins[t.path] = Origin{Source: fromFollows, Name: t.key}
		case !l.origins[t.key].written():
			t.take(&circuit, get(&l.cfg, t.path))
			l.origins[t.key] = Origin{Source: fromFollows, Name: t.path}
		}
	}
	m.CircuitBreaker = &circuit
	l.cfg.Resilience = &m
}

// checkPolicies reports the policies that a crawl cannot have, and a circuit that is not
// the one that hosts have.
func (l *loader) checkPolicies() {
	m := l.cfg.Resilience
	if m == nil {
		return
	}
	for name, there := range map[string]bool{"hedging": m.Hedging != nil, "fallback": m.Fallback != nil} {
		if path := join(resiliencePath, name); there {
			l.report(path, l.groups[path], "%s", refusedPolicies[name])
		}
	}
	if m.CircuitBreaker == nil {
		return
	}
	for _, t := range twins() {
		l.checkTwin(&t, t.value(m.CircuitBreaker))
	}
}

func (l *loader) checkTwin(t *twin, v any) {
	row, other := find(l.rows, t.path), get(&l.cfg, t.path)
	if l.bad[t.path] || l.bad[t.key] {
		return
	}
	if err := row.inRange(v); err != nil {
		l.report(t.key, l.origins[t.key], "%v", err)
		return
	}
	if v != other {
		l.report(t.key, l.origins[t.key], "%s contradicts %s, which is %s%s; they are two names for one value, give one of them",
			row.format(v), t.path, row.format(other), l.place(t.path))
	}
}

// policyTree is the document of a model, with the names of YAML.
func policyTree(m *binder.Model) node {
	data, err := m.MarshalJSON()
	if err == nil {
		var root node
		if root, err = parseJSON(data); err == nil {
			return rename(root.keys[0].value)
		}
	}
	panic(fmt.Sprintf("config: a model that cannot be written: %v", err)) // it writes what it loads
}

func rename(n node) node {
	for i := range n.keys {
		n.keys[i].key = snake(n.keys[i].key)
		n.keys[i].value = rename(n.keys[i].value)
	}
	return n
}
