package config

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"strings"

	"github.com/treadlight/crawl/internal/document"
	"github.com/treadlight/crawl/resilience/binder"
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

func (f *fileWalk) policies(e document.Entry) {
	m, err := binder.LoadNode(resiliencePath, e.Value)
	if ps, ok := errors.AsType[binder.Problems](err); ok {
		for _, p := range ps {
			if refusedPolicies[policyOf(p.Path)] == "" {
				f.report(p.Path, f.origin(p.Line), "%s", p.Text)
			}
		}
		f.refusePolicies(e.Value)
		return
	}
	f.cfg.Resilience = nil
	f.forget(resiliencePath + ".")
	f.origins[resiliencePath] = f.origin(e.Line)
	if *m == (binder.Model{}) {
		return
	}
	f.cfg.Resilience = m
	f.policyOrigins(resiliencePath, e.Value)
}

// refusedPolicies is why a crawl has not what a client may have.
var refusedPolicies = map[string]string{
	"hedging":  "is not for a crawl, which has one request at a time under way for a URL; remove it (crawl.Client can have it)",
	"fallback": "is not for a crawl, whose records are of what hosts have answered and of nothing made up; remove it (crawl.Client can have it)",
}

func policyOf(path string) string {
	for name := range strings.SplitSeq(path, ".") {
		if name = document.Snake(name); name != resiliencePath {
			return name
		}
	}
	return ""
}

// refusePolicies reports them in a section with mistakes, of which there is no model for
// checkPolicies to look at.
func (f *fileWalk) refusePolicies(n document.Node) {
	for _, e := range n.Keys {
		switch name := document.Snake(e.Key); {
		case name == resiliencePath: // the optional name around all
			f.refusePolicies(e.Value)
		case refusedPolicies[name] != "":
			f.report(document.Join(resiliencePath, name), f.origin(e.Line), "%s", refusedPolicies[name])
		}
	}
}

// policyOrigins notes where the keys of a section without mistakes were written, by
// their names in YAML. Groups are noted apart: they are no settings, but may be wrong.
func (f *fileWalk) policyOrigins(path string, n document.Node) {
	for _, e := range n.Keys {
		below := path + "." + document.Snake(e.Key)
		switch {
		case path == resiliencePath && document.Snake(e.Key) == resiliencePath: // the optional name around all
			f.policyOrigins(path, e.Value)
		case e.Value.Kind == document.Map:
			f.groups[below] = f.origin(e.Line)
			f.policyOrigins(below, e.Value)
		default:
			f.origins[below] = f.origin(e.Value.Line)
		}
	}
}

// twin is a value of the circuit breaker that the engine has under another name: every host has a circuit
// there, and one more around all hosts would let one that fails hold up the others.
type twin struct {
	key, path string
	field     func(*binder.CircuitBreaker) any // a pointer
}

var twins = []twin{
	{circuitPath + ".failure_threshold", "ratelimit.consecutive_fail_threshold", func(c *binder.CircuitBreaker) any { return &c.FailureThreshold }},
	{circuitPath + ".success_threshold", "ratelimit.half_open_probes", func(c *binder.CircuitBreaker) any { return &c.SuccessThreshold }},
	{circuitPath + ".break_seconds", "ratelimit.open_state_duration", func(c *binder.CircuitBreaker) any { return &c.Break }},
}

func (t *twin) in(c *binder.CircuitBreaker) reflect.Value { return reflect.ValueOf(t.field(c)).Elem() }

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
	for _, t := range twins {
		switch {
		case l.bad[t.path]:
		case !l.origins[t.path].written():
			at(&l.cfg, t.path).Set(t.in(&circuit))
			l.origins[t.path] = Origin{Source: fromFollows, Name: t.key}
		case !l.origins[t.key].written():
			t.in(&circuit).Set(at(&l.cfg, t.path))
			l.origins[t.key] = Origin{Source: fromFollows, Name: t.path}
		}
	}
	m.CircuitBreaker = &circuit
	l.cfg.Resilience = &m
}

func (l *loader) checkPolicies() {
	m := l.cfg.Resilience
	if m == nil {
		return
	}
	for name, there := range map[string]bool{"hedging": m.Hedging != nil, "fallback": m.Fallback != nil} {
		if path := document.Join(resiliencePath, name); there {
			l.report(path, l.groups[path], "%s", refusedPolicies[name])
		}
	}
	if m.CircuitBreaker == nil {
		return
	}
	for _, t := range twins {
		row, v, other := find(l.rows, t.path), widened(t.in(m.CircuitBreaker)), get(&l.cfg, t.path)
		switch err := row.inRange(v); {
		case l.bad[t.path] || l.bad[t.key]:
		case err != nil:
			l.report(t.key, l.origins[t.key], "%v", err)
		case v != other:
			l.report(t.key, l.origins[t.key], "%s contradicts %s, which is %s%s; they are two names for one value, give one of them",
				row.format(v), t.path, row.format(other), l.place(t.path))
		}
	}
}

// policyTree is the document of a model, with the names of YAML.
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
	panic(fmt.Sprintf("config: a model that cannot be written: %v", err)) // it writes what it loads
}

func rename(n document.Node) document.Node {
	for i := range n.Keys {
		n.Keys[i].Key = document.Snake(n.Keys[i].Key)
		n.Keys[i].Value = rename(n.Keys[i].Value)
	}
	return n
}

func policyKeys(m *binder.Model) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) { eachKey(policyTree(m), resiliencePath, yield) }
}

func eachKey(n document.Node, path string, yield func(string, string) bool) bool {
	if n.Kind != document.Map {
		return yield(path, flow(n, false))
	}
	for _, e := range n.Keys {
		if !eachKey(e.Value, path+"."+e.Key, yield) {
			return false
		}
	}
	return true
}

// diffPolicies names the policies that differ. They are built at the start and hold what
// is under way, so none of them is live.
func diffPolicies(was, is *binder.Model) (changes []Change) {
	if was.Equal(is) {
		return nil
	}
	a, b := policyTexts(was), policyTexts(is)
	for _, name := range policyNames {
		if a[name] != b[name] {
			changes = append(changes, Change{Path: resiliencePath + "." + name, Was: cmp.Or(a[name], "none"), Is: cmp.Or(b[name], "none")})
		}
	}
	return changes
}

func policyTexts(m *binder.Model) map[string]string {
	texts := make(map[string]string)
	if m != nil {
		for _, e := range policyTree(m).Keys {
			texts[e.Key] = flow(e.Value, false)
		}
	}
	return texts
}

var policyNames = []string{"retry", "timeout", "circuit_breaker", "bulkhead", "bulkhead_isolation", "hedging", "fallback"}
