package config

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const accessFile = `
access:
  auth: ["a.test=u:hunter2", "*.b.test:8080=bearer hunter2", "c.test=${TOKEN}"]
  proxy: http://me:hunter2@proxy.test:3128
  resolve: ["a.test:443:192.0.2.1,192.0.2.2", "*:80:127.0.0.1"]
  dns_server: 192.0.2.53
  family: ipv4
  cookie_file: cookies.txt
hosts:
  - match: a.test
    headers: ["X-Api-Key: hunter2", "X-Plain: yes"]
    auth: u:hunter2
    proxy: direct
    cert: c.pem
    key: k.pem
  - {match: b.test, headers: "X-One: 1", auth: "${BOTH}", proxy: "socks5://u:hunter2@p"}
  - {match: c.test, max_rps: 2}
`

func TestAccess(t *testing.T) {
	l := mustLoad(t, yamlFile(accessFile))
	require.Equal(t, Access{
		Auth:  []string{"a.test=u:hunter2", "*.b.test:8080=bearer hunter2", "c.test=${TOKEN}"},
		Proxy: "http://me:hunter2@proxy.test:3128", Resolve: []string{"a.test:443:192.0.2.1,192.0.2.2", "*:80:127.0.0.1"},
		DNSServer: "192.0.2.53", CookieFile: "cookies.txt", Family: "ipv4",
	}, l.Config.Access)
	a, b, c := &l.Config.Hosts[0], &l.Config.Hosts[1], &l.Config.Hosts[2]
	require.Equal(t, []string{"X-Api-Key: hunter2", "X-Plain: yes"}, a.Headers)
	require.Equal(t, [4]string{"u:hunter2", "direct", "c.pem", "k.pem"}, [4]string{a.Auth, a.Proxy, a.Cert, a.Key})
	require.Equal(t, []string{"X-One: 1"}, b.Headers)
	require.True(t, a.HasAccess() && b.HasAccess())
	require.False(t, c.HasAccess())
	require.Equal(t, "file crawl.yaml:11", l.Origins["hosts[0].headers[1]"].String())
}

// TestSecretsOfAccessAreHidden wherever a configuration is shown, and kept where it is saved.
func TestSecretsOfAccessAreHidden(t *testing.T) {
	l := mustLoad(t, yamlFile(accessFile))
	var y, j, saved strings.Builder
	require.NoError(t, l.WriteYAML(&y))
	require.NoError(t, l.WriteJSON(&j))
	for _, text := range []string{y.String(), j.String(), l.Config.LogValue().String()} {
		require.NotContains(t, text, "hunter2")
		require.Contains(t, text, "a.test=REDACTED")
		require.Contains(t, text, "c.test=${TOKEN}", "that it is in a variable is no secret")
		require.Contains(t, text, "http://REDACTED@proxy.test:3128")
		require.Contains(t, text, "socks5://REDACTED@p")
		require.Contains(t, text, "X-Plain: yes")
	}
	require.Contains(t, y.String(), `    headers: ["X-Api-Key: REDACTED", "X-Plain: yes"]`)
	require.NoError(t, l.Config.Save(&saved))
	require.Equal(t, l.Config, mustLoad(t, yamlFile(saved.String())).Config)

	// What was printed is no configuration any more, and says so.
	var text strings.Builder
	for _, p := range problems(t, yamlFile(y.String())) {
		text.WriteString(p + "\n")
	}
	for _, path := range []string{"access.auth[0]", "access.auth[1]", "access.proxy", "hosts[0].auth", "hosts[1].proxy"} {
		require.Contains(t, text.String(), path+": ")
	}
	require.NotContains(t, text.String(), "hosts[1].auth")
	for _, c := range Diff(new(Config), &l.Config) {
		require.NotContains(t, c.String(), "hunter2")
	}
}

func TestWrongAccess(t *testing.T) {
	for in, want := range map[string]string{
		"access: {auth: hunter2}":                                 "access.auth[0]: has no host with its credentials",
		"access: {auth: a.test=hunter2}":                          `access.auth[0]: for a.test is neither "user:password" nor`,
		"access: {auth: 'http://a.test=u:hunter2'}":               `access.auth[0]: "http://a.test" is more than a host`,
		"access: {auth: 'A.test=u:hunter2'}":                      `write "a.test"`,
		"access: {auth: 'a.test=u:${hunter2'}":                    "has a ${ without a name",
		"access: {auth: \"a.test=u:hunter2\\x01\"}":               "cannot be printed",
		"access: {proxy: 'ftp://u:hunter2@p'}":                    "access.proxy: is no proxy; write http://",
		"access: {proxy: 'http://${hunter2'}":                     "has a ${ without a name",
		"access: {resolve: a.test}":                               `access.resolve[0]: "a.test" is not complete`,
		"access: {dns_server: dns.test}":                          `access.dns_server: "dns.test" is no name server`,
		"access: {key: k.pem}":                                    "access.key: is the key of a certificate that is missing",
		"access: {cookie_file: '-'}":                              `access.cookie_file: "-" cannot be read back`,
		"hosts: [{match: a.test, key: k.pem}]":                    "hosts[0].key: is the key of a certificate that is missing; give cert as well",
		"hosts: [{match: a.test, auth: hunter2}]":                 "hosts[0].auth: is neither",
		"hosts: [{match: a.test, proxy: env}]":                    "hosts[0].proxy: env is for access.proxy only",
		"hosts: [{match: a.test, proxy: x y}]":                    "hosts[0].proxy: is no proxy",
		"hosts: [{match: a.test, headers: [hunter2]}]":            "hosts[0].headers[0]: has no colon",
		"hosts: [{match: a.test, headers: ['A: 1', 'Host: x']}]":  `hosts[0].headers[1]: "Host" is the crawler's own to set`,
		"hosts: [{match: a.test, headers: {a: b}}]":               "hosts[0].headers: is a group",
		"hosts: [{match: a.test, headers: [[x]]}]":                "hosts[0].headers[0]: is a list; give a text",
		"hosts: [{match: a.test, headers: [\"A: 1\\r\\nB: 2\"]}]": "control characters",
		"hosts: [{match: a.test, header: 'A: 1'}]":                "hosts[0].header: is not a setting; did you mean hosts[0].headers?",
	} {
		_, err := Load(yamlFile(in + "\n"))
		require.ErrorContains(t, err, want, in)
		require.NotContains(t, err.Error(), "hunter2", in)
	}
}

// TestAccessIsNotLive: what it says was built at the start.
func TestAccessIsNotLive(t *testing.T) {
	was, is := Default(), Default()
	is.Hosts = []Host{{Match: "a.test", InitialRPS: 1, MinRPS: 1, MaxRPS: 1, Auth: "u:hunter2"}}
	_, applied, refused, err := Update(&was, &is)
	require.NoError(t, err)
	require.Empty(t, applied)
	require.Equal(t, []string{"hosts: [] → [a.test]"}, lines(refused))
	was.Hosts = []Host{is.Hosts[0]}
	is.Hosts = []Host{{Match: "a.test", InitialRPS: 1, MinRPS: 1, MaxRPS: 1, Auth: "u:hunter3", Headers: []string{"Cookie: hunter2"}}}
	_, applied, refused, err = Update(&was, &is)
	require.NoError(t, err)
	require.Empty(t, applied)
	require.Equal(t, []string{`hosts[0].headers: [] → [Cookie: REDACTED]`, `hosts[0].auth: "REDACTED" → "REDACTED"`}, lines(refused))
}

func TestFleet(t *testing.T) {
	env := func(vars ...string) error {
		_, err := Load(Sources{Env: vars})
		return err
	}
	require.NoError(t, env("CRAWL_FLEET_REDIS=rediss://u:${PW}@r.test:6380", "CRAWL_FLEET_JOB=j", "CRAWL_FLEET_WORKER=w-1.a"))
	for want, vars := range map[string][]string{
		"fleet.job: is empty, and fleet.redis is not":             {"CRAWL_FLEET_REDIS=redis://r.test:1"},
		"fleet.redis: is empty, and fleet.job is not":             {"CRAWL_FLEET_JOB=j"},
		"is no URL of a Redis":                                    {"CRAWL_FLEET_REDIS=http://u:secret@r.test", "CRAWL_FLEET_JOB=j"},
		"where a secret stood":                                    {"CRAWL_FLEET_REDIS=redis://REDACTED@r.test", "CRAWL_FLEET_JOB=j"},
		"is no name: use 1 to 64":                                 {"CRAWL_FLEET_REDIS=redis://r.test:1", "CRAWL_FLEET_JOB=a b"},
		"\"..\" is no name":                                       {"CRAWL_FLEET_REDIS=redis://r.test:1", "CRAWL_FLEET_JOB=j", "CRAWL_FLEET_WORKER=.."},
		"and a crawl of several processes is kept in fleet.redis": {"CRAWL_FLEET_REDIS=redis://r.test:1", "CRAWL_FLEET_JOB=j", "CRAWL_STATE_DIR=s"},
		"is more than the 1,000,000,000 bytes a second":           {"CRAWL_FLEET_REDIS=redis://r.test:1", "CRAWL_FLEET_JOB=j", "CRAWL_RATELIMIT_GLOBAL_BYTES=1GiB"},
		"counts the URLs of one process, and fleet.redis":         {"CRAWL_FLEET_REDIS=redis://r.test:1", "CRAWL_FLEET_JOB=j", "CRAWL_SCOPE_BUDGETS=5/crawl x"},
	} {
		err := env(vars...)
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "secret@")
	}
	loaded, err := Load(Sources{Env: []string{"CRAWL_FLEET_REDIS=redis://u:secret@r.test:1", "CRAWL_FLEET_JOB=j"}})
	require.NoError(t, err)
	var b strings.Builder
	require.NoError(t, loaded.WriteYAML(&b))
	require.NotContains(t, b.String(), "secret@")
	require.Contains(t, b.String(), "REDACTED@r.test:1")
}

func TestTerms(t *testing.T) {
	a := Default()
	require.Equal(t, "host", a.Terms()["scope.mode"])
	require.NotContains(t, a.Terms(), "scope.include", "what is empty is no term")
	b := a
	b.Scope.Exclude, b.RateLimit.MaxRPS, b.Output.Path, b.Fetch.UserAgent = []string{"x", "y"}, 3, "o", "u"
	terms := b.Terms()
	require.Equal(t, "x, y", terms["scope.exclude"])
	delete(terms, "scope.exclude")
	require.Equal(t, a.Terms(), terms, "how fast, under what name and where to is each process's own")

	budgets := map[string]string{
		"max_pages": "7", "max_time": "1h", "ratelimit.global_rps": "2.5", "ratelimit.ip_rps": "3", "ratelimit.site_rps": "4",
		"ratelimit.global_concurrency": "5", "ratelimit.global_bytes": "1MiB",
	}
	for path := range budgets {
		require.NotContains(t, terms, path, "no bound is no term")
	}
	b.MaxPages, b.MaxTime, b.RateLimit.GlobalRPS, b.RateLimit.IPRPS, b.RateLimit.SiteRPS = 7, time.Hour, 2.5, 3, 4
	b.RateLimit.GlobalConcurrency, b.RateLimit.GlobalBytes = 5, 1<<20
	for path, want := range budgets {
		require.Equal(t, want, b.Terms()[path], "what bounds all of them is agreed on")
	}
}

func TestRedisURL(t *testing.T) {
	require.Equal(t, "redis://REDACTED@h.test?sentinel_password=REDACTED&x=1", RedactRedis("redis://a:b@h.test?sentinel_password=c&x=1"))
	require.Equal(t, "redis://h.test?sentinel_password=${PW}", RedactRedis("redis://h.test?sentinel_password=${PW}"))
	require.NoError(t, redisURL("unix:///run/redis.sock"))
	require.ErrorContains(t, redisURL("redis://:6379"), "names no host")
	for _, bad := range []string{"http://u:secret@h.test", "redis://u:secret@h.test:port", "h.test:6379"} {
		err := redisURL(bad)
		require.ErrorContains(t, err, "is no URL of a Redis")
		require.NotContains(t, err.Error(), "secret")
	}
}

func TestCapsOfHosts(t *testing.T) {
	l := mustLoad(t, yamlFile(`hosts:
- match: "*.example.org"
  cap: {kind: sliding-window-log, permits: 10, per: 1s}
  max_rate: 5
  max_in_flight: 2
  min_delay: 100ms
  quota: {permits: 5000, per: 24h}
- match: a.test
  cap: {kind: concurrency, permits: 3}
- match: b.test
  cap:
  quota: {kind: sliding-window-log, permits: 7, per: 1m}
`))
	require.Equal(t, []Host{
		{
			Match: "*.example.org", InitialRPS: 1, MinRPS: 0.1, MaxRPS: 5, MinDelay: 100 * time.Millisecond, MaxInFlight: 2,
			Cap: Cap{"sliding-window-log", 10, time.Second}, Quota: Cap{"fixed-window", 5000, 24 * time.Hour},
		},
		{Match: "a.test", InitialRPS: 1, MinRPS: 0.1, MaxRPS: 10, Cap: Cap{Kind: "concurrency", Permits: 3}},
		{Match: "b.test", InitialRPS: 1, MinRPS: 0.1, MaxRPS: 10, Quota: Cap{"sliding-window-log", 7, time.Minute}},
	}, l.Config.Hosts)
	for path, want := range map[string]string{
		"hosts[0].cap.permits":   "file crawl.yaml:3",
		"hosts[0].max_rps":       "file crawl.yaml:4",
		"hosts[0].quota.kind":    "default",
		"hosts[2].quota.kind":    "file crawl.yaml:12",
		"hosts[0].quota.per":     "file crawl.yaml:7",
		"hosts[0].max_in_flight": "file crawl.yaml:5",
	} {
		require.Equal(t, want, l.Origins[path].String(), path)
	}
	require.NoError(t, l.Config.Validate())
}

func TestWrongCaps(t *testing.T) {
	for _, c := range []struct{ rule, want string }{
		{"cap: {kind: sliding, permits: 1, per: 1s}", `hosts[0].cap.kind: "sliding" is not a choice; give one of token-bucket, fixed-window, sliding-window, sliding-window-log, leaky-bucket, concurrency`},
		{"cap: {permits: 1, per: 1s}", "hosts[0].cap.kind: is missing; give one of token-bucket, "},
		{"cap: {kind: leaky-bucket, permits: 1}", "hosts[0].cap.per: is missing; give a duration"},
		{"cap: {kind: leaky-bucket, per: 1s}", "hosts[0].cap.permits: is missing; give a whole number of requests between 1 and 1000000"},
		{"cap: {kind: leaky-bucket, per: 1s, permits: 0}", "hosts[0].cap.permits: 0 is below 1; give"},
		{"cap: {kind: leaky-bucket, per: 0, permits: 1}", "hosts[0].cap.per: 0 is below 1ms; give"},
		{"cap: {kind: leaky-bucket, per: 5, permits: 1}", `hosts[0].cap.per: 5 has no unit; write "5s" for seconds`},
		{"cap: {kind: concurrency, per: 1s, permits: 1}", "hosts[0].cap.per: is not for the kind concurrency"},
		{"cap: {kind: leaky-bucket, per: 1s, permit: 1}", "hosts[0].cap.permit: is not a setting; did you mean hosts[0].cap.permits?"},
		{"cap: {kind: leaky-bucket, per: 1s, permits: 1, permits: 2}", "hosts[0].cap.permits: is set already on line 2; remove one of the two"},
		{"cap: 10", "hosts[0].cap: is a single value; give settings by their names"},
		{"quota: {kind: leaky-bucket, permits: 1, per: 1h}", `hosts[0].quota.kind: "leaky-bucket" is not a choice; give one of fixed-window, sliding-window, sliding-window-log`},
		{"quota: {permits: 1}", "hosts[0].quota.per: is missing"},
		{"qota: {permits: 1, per: 1h}", "hosts[0].qota: is not a setting"},
		{"max_in_flight: 1001", "hosts[0].max_in_flight: 1001 is above 1000; give a whole number of requests between 1 and 1000, or 0 for per_host_max"},
		{"max_rate: 1, max_rps: 2", "hosts[0].max_rps: is set already on line 2; remove one of the two"},
	} {
		_, err := Load(yamlFile("hosts:\n- {match: a.test, " + c.rule + "}\n"))
		require.ErrorContains(t, err, c.want, c.rule)
		if !strings.Contains(c.want, "did you mean") { // what was meant is missing, too
			require.Len(t, problems(t, yamlFile("hosts:\n- {match: a.test, "+c.rule+"}\n")), 1, c.rule)
		}
	}
}

// Settings that do not do what they seem to are told of, and others are not.
func TestWarnings(t *testing.T) {
	for _, c := range []struct{ text, want, not string }{
		{"fetch: {headers: ['Authorization: x', 'Accept-Language: en', 'X-Api-Key: y']}", "fetch.headers: Authorization, X-Api-Key goes only to the hosts that seeds name", ""},
		{"fetch: {headers: ['Accept-Language: en']}", "", "fetch.headers"},
		{"access: {proxy: 'socks5://p', resolve: 'a.test:80:192.0.2.1'}", "access.resolve: a proxy looks names up itself", ""},
		{"ratelimit: {strategy: 'off', global_bytes: 2MiB}\nhosts: [{match: a.test, quota: {permits: 1, per: 1h}}]", "ratelimit.strategy is off and paces nothing: ratelimit.global_bytes, hosts[0] will not be kept", ""},
		{"ratelimit: {global_bytes: 2MiB}", "", "will not be kept"},
		{"{output: {format: csv, record: [text, body, metadata]}}", "of pages, text, metadata, body will not be written, since the format \"csv\" has no place for that", ""},
		{"{output: {format: urls, record: main-text}, extract: {fields: {a: css:b}}}", "of pages, fields, main-text will", ""},
		{"{output: {format: csv}, extract: {fields: {a: css:b}}}", "", "output.record"},
		{"{output: {format: urls, record: [no-links, no-digest]}}", "", "output.record"},
		{"{output: {record: [text, body, metadata, main-text]}}", "", "output.record"},
		{"{output: {format: csv}}", "", "output.record"},
	} {
		told := strings.Join(mustLoad(t, yamlFile(c.text)).Warnings, "\n")
		require.Contains(t, told, c.want, c.text)
		if c.not != "" {
			require.NotContains(t, told, c.not, c.text)
		}
	}
}

// The variables that all programs with traces look at count, but less than what is written for this one.
func TestStandardVariables(t *testing.T) {
	const at, own = "OTEL_EXPORTER_OTLP_ENDPOINT=http://o.test:4318/", "CRAWL_TRACES_ENDPOINT=http://c.test"
	for name, c := range map[string]struct {
		env  []string
		file string
		want Traces
	}{
		"none":     {want: Traces{Sample: 1}},
		"endpoint": {env: []string{at}, want: Traces{Endpoint: "http://o.test:4318/v1/traces", Sample: 1}},
		"of traces alone": {
			env:  []string{at, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://t.test/x"},
			want: Traces{Endpoint: "http://t.test/x", Sample: 1},
		},
		"off":      {env: []string{at, "OTEL_TRACES_EXPORTER=none"}, want: Traces{Sample: 1}},
		"disabled": {env: []string{at, "OTEL_SDK_DISABLED=TRUE"}, want: Traces{Sample: 1}},
		"headers": {
			env:  []string{"OTEL_EXPORTER_OTLP_HEADERS=api-key=a%20b, X-Two=2"},
			want: Traces{Headers: []string{"api-key: a b", "X-Two: 2"}, Sample: 1},
		},
		"sampler": {env: []string{"OTEL_TRACES_SAMPLER=traceidratio", "OTEL_TRACES_SAMPLER_ARG=0.25"}, want: Traces{Sample: .25}},
		"no sampler": {
			env: []string{"OTEL_TRACES_SAMPLER=always_off"},
		},
		"own variable": {env: []string{at, own}, want: Traces{Endpoint: "http://c.test", Sample: 1}},
		"file": {
			env: []string{at, "OTEL_EXPORTER_OTLP_HEADERS=a=b"}, file: "traces: {endpoint: 'http://f.test', headers: ['X: y']}",
			want: Traces{Endpoint: "http://f.test", Headers: []string{"X: y"}, Sample: 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			src := Sources{Env: c.env}
			if c.file != "" {
				src.File, src.Reader = "crawl.yaml", strings.NewReader(c.file)
			}
			loaded := must(Load(src))
			got := loaded.Config.Traces
			require.Equal(t, c.want.Endpoint, got.Endpoint)
			require.ElementsMatch(t, c.want.Headers, got.Headers)
			require.InDelta(t, c.want.Sample, got.Sample, 0)
		})
	}
	_, err := Load(Sources{Env: []string{"OTEL_EXPORTER_OTLP_ENDPOINT=collector:4318"}})
	require.ErrorContains(t, err, "OTEL_EXPORTER_OTLP_ENDPOINT")
	require.ErrorContains(t, err, "is no URL of a collector")
	loaded := must(Load(Sources{Env: []string{"OTEL_EXPORTER_OTLP_HEADERS=api-key=hush"}}))
	var b strings.Builder
	require.NoError(t, loaded.WriteYAML(&b))
	require.NotContains(t, b.String(), "hush")
	require.Contains(t, b.String(), "api-key: REDACTED")
}
