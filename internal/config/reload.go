package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/treadlight/crawl/internal/document"
)

const hostsPath = "hosts"

// Change is a setting that differs between two configurations.
type Change struct {
	Path string // such as "ratelimit.max_rps", "hosts[2].min_delay", or "hosts" for the rules as a list
	Was  string // as a file would have it; credentials are redacted
	Is   string
	Live bool // may change while a crawl runs

	rule int    // for a key of a rule: the number of the rule, from 1
	key  string // path of the setting, within the rule if it is in one
}

func (c Change) String() string { return fmt.Sprintf("%s: %s → %s", c.Path, c.Was, c.Is) }

// Diff lists the settings that differ, in the order of the manual. Of rules for hosts it lists the keys if both
// configurations have rules for the same hosts in the same order; otherwise it lists the rules as one change. Caps,
// quotas and bounds in flight have counters, so these keys are not live, and neither is a list with one of them.
func Diff(was, is *Config) []Change {
	var changes []Change
	for _, f := range fields() {
		if !f.noStruct {
			changes = diffRow(changes, &f, was, is, Change{Path: f.path, Live: f.live})
		}
	}
	changes = append(changes, diffHosts(was.Hosts, is.Hosts)...)
	return append(changes, diffPolicies(was.Resilience, is.Resilience)...)
}

func diffRow(changes []Change, f *field, was, is any, c Change) []Change {
	a, b := get(was, f.path), get(is, f.path)
	if reflect.DeepEqual(a, b) || f.kind == kindList && reflect.ValueOf(a).Len()+reflect.ValueOf(b).Len() == 0 {
		return changes
	}
	c.Was, c.Is, c.key = f.inWords(a), f.inWords(b), f.path
	return append(changes, c)
}

func (f *field) inWords(v any) string {
	if items, ok := v.([]string); ok {
		shown := make([]string, len(items))
		for i, item := range items {
			shown[i] = f.shown(item)
		}
		return f.format(shown)
	}
	if text := f.plain(v); text != "" {
		return text
	}
	return `""`
}

func diffHosts(was, is []Host) []Change {
	if !slices.EqualFunc(was, is, func(a, b Host) bool { return a.Match == b.Match }) {
		counted := slices.ContainsFunc(slices.Concat(was, is), Host.counted)
		return []Change{{Path: hostsPath, Was: matches(was), Is: matches(is), Live: !counted}}
	}
	var changes []Change
	for i := range was {
		for _, f := range hostFields() {
			changes = diffRow(changes, &f, &was[i], &is[i], Change{
				Path: document.Item(hostsPath, i) + "." + f.path, Live: slices.Contains(hostKeys, f.path), rule: i + 1,
			})
		}
	}
	return changes
}

// counted reports whether a rule has counters, or parts that are built at the start.
func (h Host) counted() bool {
	return h.MaxInFlight > 0 || !h.Cap.IsZero() || !h.Quota.IsZero() || h.HasAccess()
}

func matches(hosts []Host) string {
	names := make([]string, len(hosts))
	for i := range hosts {
		names[i] = hosts[i].Match
	}
	return "[" + strings.Join(names, ", ") + "]"
}

// Update returns the configuration with which a running crawl continues when its configuration is read again: was, with
// the values of is for settings that may change while it runs. Applied lists those changes, and refused the others,
// whose old values stay. An error means that [Config.Validate] rejects the combination.
func Update(was, is *Config) (now Config, applied, refused []Change, err error) {
	now = *was
	now.Hosts = slices.Clone(was.Hosts)
	for _, c := range Diff(was, is) {
		if !c.Live {
			refused = append(refused, c)
			continue
		}
		applied = append(applied, c)
		switch {
		case c.Path == hostsPath:
			now.Hosts = slices.Clone(is.Hosts)
		case c.rule > 0:
			at(&now.Hosts[c.rule-1], c.key).Set(at(&is.Hosts[c.rule-1], c.key))
		default:
			at(&now, c.key).Set(at(is, c.key))
		}
	}
	return now, applied, refused, now.Validate()
}
