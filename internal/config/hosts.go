package config

import (
	"slices"
	"strings"

	"github.com/treadlight/crawl/internal/document"
)

// hostMatch is the one key of a rule for hosts that every rule has.
var hostMatch = field{
	path: "match", kind: kindText,
	doc: "the host, or *.NAME for all names below; with a port, that port only", example: "*.example.com",
	check: hostPattern,
}

// hostKeys are the keys of a rule that take the place of a setting: those that the
// engine keeps for each host apart.
var hostKeys = []string{"initial_rps", "min_rps", "max_rps", "min_delay"}

const (
	capPath    = "cap"
	quotaPath  = "quota"
	kindKey    = ".kind"
	permitsKey = ".permits"
	perKey     = ".per"
)

const concurrency = "concurrency"

// quotaKind is the kind of a quota that names none. Quotas of operators are so many a day, all given out
// again at once, so that there is one instant to say a spent one ends at.
const quotaKind = "fixed-window"

var hostCaps = []field{
	{path: "max_in_flight", kind: kindInt, unit: "requests", min: "1", max: "1000", zero: "per_host_max", doc: "requests out at a time, within per_host_max; 0 = as many as that", example: "2"},
	{
		path: capPath + kindKey, kind: kindChoice, enum: []string{"token-bucket", "fixed-window", "sliding-window", "sliding-window-log", "leaky-bucket", concurrency},
		doc: "how the cap counts; it holds for each host that matches", example: "sliding-window-log",
	},
	// A log of a million grants takes 16 MB for one host, and nobody is asked that often.
	{path: capPath + permitsKey, kind: kindInt, unit: "requests", min: "1", max: "1000000", doc: "requests in cap.per, of the kind concurrency at a time", example: "10"},
	{path: capPath + perKey, kind: kindDuration, min: "1ms", max: "8760h", doc: "the span of cap.permits; none for the kind concurrency", example: "1s"},
	{path: quotaPath + kindKey, kind: kindChoice, enum: []string{quotaKind, "sliding-window", "sliding-window-log"}, doc: "how the quota counts; windows begin with the crawl", example: quotaKind},
	{
		path: quotaPath + permitsKey, kind: kindInt, unit: "requests", min: "1", max: "1000000000",
		doc: "requests in quota.per, robots.txt and retries included; a host whose quota is spent is blocked", example: "5000",
	},
	{path: quotaPath + perKey, kind: kindDuration, min: "1ms", max: "8760h", doc: "the span of quota.permits", example: "24h"},
}

var hostAccess = []field{
	{path: "headers", kind: kindList, doc: `headers for its requests, "Name: value", over those of fetch.headers; empty = none`, example: "X-Api-Key: ${API_KEY}", check: header, redact: redactHeader},
	{
		path: "auth", kind: kindText,
		doc: `credentials, "user:password" or "bearer TOKEN"; empty = those of access.auth or access.netrc`, example: "reader:${READER_PASSWORD}", check: auth, redact: redactAuth,
	},
	{path: "proxy", kind: kindText, doc: "proxy, or direct for none; empty = access.proxy", example: "direct", check: hostProxy, redact: redactProxy},
	{path: "cert", kind: kindText, arg: "file", doc: "PEM file of the client certificate; empty = access.cert", example: "client.pem", check: noStream},
	{path: "key", kind: kindText, arg: "file", doc: "PEM file of its key; empty = in the file of the certificate", example: "client.key", check: noStream},
}

// hostFields are the rows of one rule of the list hosts. Ranges and sentences are
// those of the settings the keys stand in for.
func hostFields() []field {
	all, rows := fields(), []field{hostMatch}
	for _, key := range hostKeys {
		f := *find(all, inherit(key))
		f.path, f.def, f.flag, f.short, f.also = key, "", "", "", nil
		rows = append(rows, f)
	}
	return slices.Concat(rows, hostCaps, hostAccess)
}

func inherit(key string) string { return "ratelimit." + key }

// hostAliases are other spellings of keys: rates are called rates by the flags.
var hostAliases = map[string]string{
	"rate": "initial_rps", "initial_rate": "initial_rps", "min_rate": "min_rps", "max_rate": "max_rps",
}

// unset reports whether a row is part of a cap that the rule has not, or says nothing of who
// we are to its hosts.
func (h *Host) unset(f *field) bool {
	switch section(f.path) {
	case capPath:
		return h.Cap.IsZero()
	case quotaPath:
		return h.Quota.IsZero()
	}
	return find(hostAccess, f.path) != nil && at(h, f.path).IsZero()
}

func (l *loader) checkCaps(rule *Host, path string) {
	if rule.Cap.Kind == concurrency && rule.Cap.Per != 0 {
		per := document.Join(path, capPath+perKey)
		l.report(per, l.origins[per], "is not for the kind concurrency, which counts the requests that are out; remove it")
	}
}

// warnOff tells of limits that nobody keeps. It is no error, because off is also what one
// adds to a command line for a moment.
func (l *loader) warnOff() {
	if l.cfg.RateLimit.Enabled() {
		return
	}
	var idle []string
	for _, path := range []string{"ratelimit.global_rps", "ratelimit.global_concurrency", "ratelimit.global_bytes"} {
		if n, _ := number(get(&l.cfg, path)); n != 0 {
			idle = append(idle, path)
		}
	}
	for i := range l.cfg.Hosts {
		if h := &l.cfg.Hosts[i]; !h.Cap.IsZero() || !h.Quota.IsZero() {
			idle = append(idle, document.Item("hosts", i))
		}
	}
	if len(idle) > 0 {
		l.warn("ratelimit.strategy is off and paces nothing: %s will not be kept; give another strategy, such as fixed", strings.Join(idle[:min(len(idle), warnedCaps)], ", "))
	}
}

const warnedCaps = 5

// needless reports whether a row of a cap may be left out: the kind of a quota has a
// default, and concurrency has no span.
func (h *Host) needless(f *field) bool {
	switch f.path {
	case quotaPath + kindKey:
		return h.Quota.Kind == ""
	case capPath + perKey:
		return h.Cap.Kind == concurrency
	}
	return false
}

// checkHostRow checks one value of a rule. What a cap lacks is told beside what it has.
func (l *loader) checkHostRow(rule *Host, f *field, path string) {
	full := document.Join(path, f.path)
	if rule.unset(f) || rule.needless(f) || l.bad[full] {
		return
	}
	if s := section(f.path); s != "" && at(rule, f.path).IsZero() && l.origins[full] == (Origin{}) {
		l.report(full, l.origins[path+".match"], "is missing; give %s", f.want())
		return
	}
	l.check(rule, f, full)
}

func (l *loader) settleCaps(rule *Host, prefix string) {
	if most := prefix + "max_in_flight"; l.origins[most] == (Origin{}) {
		l.origins[most] = Origin{Source: fromDefault}
	}
	path := prefix + quotaPath + kindKey
	if rule.Quota.IsZero() || rule.Quota.Kind != "" || l.bad[path] {
		return
	}
	rule.Quota.Kind = quotaKind
	l.origins[path] = Origin{Source: fromDefault}
}
