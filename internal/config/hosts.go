package config

import (
	"slices"
	"strings"
	"sync"

	"github.com/treadlight/crawl/internal/document"
)

// hostMatch is the only key that every rule for hosts must have.
var hostMatch = field{
	path: "match", kind: kindText,
	doc: "the host, or *.NAME for all names below; with a port, that port only", example: "*.example.com",
	check: hostPattern,
}

// hostKeys are the keys of a rule that replace a setting: those that the limiter keeps separately for each host.
var hostKeys = []string{"initial_rps", "min_rps", "max_rps", "min_delay"}

const (
	capPath    = "cap"
	quotaPath  = "quota"
	kindKey    = ".kind"
	permitsKey = ".permits"
	perKey     = ".per"
)

const concurrency = "concurrency"

// quotaKind is the default kind of a quota. Operators usually grant a number of requests per day, all at the same time,
// so that there is one instant at which a used-up quota ends.
const quotaKind = "fixed-window"

var hostCaps = []field{
	{path: "max_in_flight", kind: kindInt, unit: "requests", min: "1", max: "1000", zero: "per_host_max", doc: "requests in flight at a time, within per_host_max; 0 = per_host_max", example: "2"},
	{
		path: capPath + kindKey, kind: kindChoice, enum: []string{"token-bucket", "fixed-window", "sliding-window", "sliding-window-log", "leaky-bucket", concurrency},
		doc: "how the cap counts; each host that matches has its own", example: "sliding-window-log",
	},
	// A log of a million permits takes 16 MB for one host, and no host gets that many requests.
	{path: capPath + permitsKey, kind: kindInt, unit: "requests", min: "1", max: "1000000", doc: "requests per cap.per; of the kind concurrency, requests at a time", example: "10"},
	{path: capPath + perKey, kind: kindDuration, min: "1ms", max: "8760h", doc: "the span of cap.permits; none for the kind concurrency", example: "1s"},
	{path: quotaPath + kindKey, kind: kindChoice, enum: []string{quotaKind, "sliding-window", "sliding-window-log"}, doc: "how the quota counts; windows begin with the crawl", example: quotaKind},
	{
		path: quotaPath + permitsKey, kind: kindInt, unit: "requests", min: "1", max: "1000000000",
		doc: "requests per quota.per, with robots.txt and retries; a host is blocked when its quota is used up", example: "5000",
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

// hostFields are the rows of one rule in the list hosts. Ranges and texts are those of the settings that the keys
// replace.
var hostFields = sync.OnceValue(func() []field {
	rows := []field{hostMatch}
	for _, key := range hostKeys {
		f := *find(fields(), inherit(key))
		f.path, f.def, f.flag, f.short, f.also = key, "", "", "", nil
		rows = append(rows, f)
	}
	return slices.Concat(rows, hostCaps, hostAccess)
})

func inherit(key string) string { return "ratelimit." + key }

var hostAliases = map[string]string{
	"rate": "initial_rps", "initial_rate": "initial_rps", "min_rate": "min_rps", "max_rate": "max_rps",
}

// unset reports whether a row belongs to a cap that the rule does not have, or is an access setting that the rule
// leaves out.
func (h *Host) unset(f *field) bool {
	switch section(f.path) {
	case capPath:
		return h.Cap.IsZero()
	case quotaPath:
		return h.Quota.IsZero()
	}
	return find(hostAccess, f.path) != nil && at(h, f.path).IsZero()
}

// warnOff warns of limits that are not enforced because the strategy is off. It is no error, because off may be added
// to a command line for a moment.
func (c checker) warnOff() {
	if c.cfg.RateLimit.Enabled() {
		return
	}
	var idle []string
	for _, path := range []string{"ratelimit.global_rps", "ratelimit.global_concurrency", "ratelimit.global_bytes"} {
		if c.number(path) != 0 {
			idle = append(idle, path)
		}
	}
	for i := range c.cfg.Hosts {
		if h := &c.cfg.Hosts[i]; !h.Cap.IsZero() || !h.Quota.IsZero() {
			idle = append(idle, document.Item("hosts", i))
		}
	}
	if len(idle) > 0 {
		c.warn("ratelimit.strategy is off and paces nothing: %s will not be kept; give another strategy, such as fixed", strings.Join(idle[:min(len(idle), warnedCaps)], ", "))
	}
}

const warnedCaps = 5

// needless reports whether a row of a cap may be left out: the kind of a quota has a default, and a cap of the kind
// concurrency has no time span.
func (h *Host) needless(f *field) bool {
	switch f.path {
	case quotaPath + kindKey:
		return h.Quota.Kind == ""
	case capPath + perKey:
		return h.Cap.Kind == concurrency
	}
	return false
}

func (l loader) settleCaps(i int) {
	path := document.Item(hostsPath, i) + "."
	if most := path + "max_in_flight"; l.origins[most] == (Origin{}) {
		l.origins[most] = Origin{Source: fromDefault}
	}
	kind, q := path+quotaPath+kindKey, &l.cfg.Hosts[i].Quota
	if !q.IsZero() && q.Kind == "" && !l.bad[kind] {
		q.Kind, l.origins[kind] = quotaKind, Origin{Source: fromDefault}
	}
}
