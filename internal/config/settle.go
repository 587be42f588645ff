package config

import (
	"reflect"
	"slices"

	"github.com/treadlight/crawl/internal/document"
)

// settle moves values that nobody wrote next to those that somebody did. The package
// comment says why; [loader.validate] finds what it could not reconcile.
func (l *loader) settle() {
	// Rules for hosts come last: they take over what has settled above.
	if format, _ := endingFormat(l.cfg.Output.Path); format != "" && !l.origins["output.format"].written() {
		l.follow("output.format", format, "output.path")
	}
	l.settleSeeds()
	l.settlePolicies()
	for _, chain := range ordered {
		l.settleOrder(&l.cfg, "", chain)
	}
	for i := range l.cfg.Hosts {
		rule, prefix := &l.cfg.Hosts[i], document.Item("hosts", i)+"."
		for _, key := range hostKeys {
			l.fill(rule, prefix, key)
		}
		l.settleCaps(rule, prefix)
		l.settleOrder(rule, prefix, hostOrdered)
	}
}

var ordered = [][]string{
	{"ratelimit.min_rps", "ratelimit.initial_rps", "ratelimit.max_rps"},
	{"ratelimit.retry_base_delay", "ratelimit.retry_max_delay"},
}

var hostOrdered = []string{"min_rps", "initial_rps", "max_rps"}

// settleOrder clamps each value that nobody wrote between its nearest written neighbours. Clamping keeps
// the order the defaults have among themselves.
func (l *loader) settleOrder(root any, prefix string, chain []string) {
	for i, path := range chain {
		if l.origins[prefix+path].written() {
			continue
		}
		for j, other := range chain {
			if !l.origins[prefix+other].written() || l.row(root, other).inRange(get(root, other)) != nil {
				continue
			}
			if wrongOrder(root, path, other, i < j) {
				at(root, path).Set(at(root, other))
				l.origins[prefix+path] = Origin{Source: fromFollows, Name: prefix + other}
			}
		}
	}
}

func wrongOrder(root any, a, b string, aFirst bool) bool {
	x, _ := number(get(root, a))
	y, _ := number(get(root, b))
	if aFirst {
		return x > y
	}
	return x < y
}

func (l *loader) fill(rule *Host, prefix, key string) {
	if _, ok := l.origins[prefix+key]; ok || l.bad[prefix+key] {
		return
	}
	from := inherit(key)
	at(rule, key).Set(at(&l.cfg, from))
	l.origins[prefix+key] = Origin{Source: fromFollows, Name: from}
}

// settleSeeds has an empty name take back the files of seeds before it.
func (l *loader) settleSeeds() {
	const path = "seeds.file"
	files := l.cfg.Seeds.Files
	if !slices.Contains(files, "") {
		return
	}
	var left []string
	var origins []Origin
	for i, file := range files {
		if file == "" {
			left, origins = nil, nil
			continue
		}
		left, origins = append(left, file), append(origins, l.origins[document.Item(path, i)])
	}
	l.storeListAt(&l.cfg, find(l.rows, path), path, left, origins, l.origins[path])
}

// follow sets a value on behalf of another one, if that was written in a stronger
// layer than the value itself.
func (l *loader) follow(path string, value any, leader string) {
	if l.origins[path].rank() >= l.origins[leader].rank() {
		return
	}
	at(&l.cfg, path).Set(reflect.ValueOf(value))
	l.origins[path] = Origin{Source: fromFollows, Name: leader}
}
