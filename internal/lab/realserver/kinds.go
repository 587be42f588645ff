package realserver

import (
	"embed"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

//go:embed conf
var confs embed.FS

// conf is a configuration, or a program. What is in braces or in capitals in it is filled in.
func conf(name string) string {
	text, err := confs.ReadFile("conf/" + name)
	if err != nil {
		panic(err) // a part of the program
	}
	return string(text)
}

// Kind is a server with a limit per client address.
type Kind struct {
	Name       string
	Rule       string  // of its configuration
	Nominal    float64 // what the rule is in requests per second
	Available  float64 // the most requests per second that a client can have in the long run
	Why        string  // why Available is not Nominal
	AtOnce     int     // requests that it admits at once after a pause
	InFlight   int     // requests at a time; zero means any number
	Status     int     // of a refusal
	RetryAfter bool    // of a refusal
	Fast       bool    // the limit is so high that a measurement takes the whole machine

	recipe recipe
}

// Start runs the server until the test ends. Without the program or module the test ends as
// [Need] says.
func (k *Kind) Start(tb testing.TB) *Server {
	tb.Helper()
	return start(tb, k.recipe)
}

// StartBefore is [Kind.Start] of a server before an application, which [Server.Away] takes away.
func (k *Kind) StartBefore(tb testing.TB) *Server {
	tb.Helper()
	r := k.recipe
	if r.pass != "" {
		r.serve, r.prepare = r.pass, startBack(0)
	}
	return start(tb, r)
}

// Kinds are limits of each sort: small and large buckets, queues, fixed, sliding and logged
// windows, a limit of connections, and a block that every request renews.
func Kinds() []Kind {
	return []Kind{
		{Name: "nginx-2", Rule: "limit_req 2 r/s, burst 5 nodelay: 429", Nominal: 2, Available: 2, AtOnce: 6, Status: 429, recipe: nginxLimit("2r/s", "burst=5 nodelay", "limit_req_status 429;")},
		{Name: "nginx-20", Rule: "limit_req 20 r/s, burst 5 nodelay: 429", Nominal: 20, Available: 20, AtOnce: 6, Status: 429, recipe: nginxLimit("20r/s", "burst=5 nodelay", "limit_req_status 429;")},
		{Name: "nginx-20-503", Rule: "limit_req 20 r/s, burst 5 nodelay: 503", Nominal: 20, Available: 20, AtOnce: 6, Status: 503, recipe: nginxLimit("20r/s", "burst=5 nodelay", "")},
		{Name: "nginx-20-delay", Rule: "limit_req 20 r/s, burst 5 queued: 429", Nominal: 20, Available: 20, AtOnce: 6, Status: 429, recipe: nginxLimit("20r/s", "burst=5", "limit_req_status 429;")},
		{Name: "nginx-20-queue", Rule: "limit_req 20 r/s, burst 20 queued: 503", Nominal: 20, Available: 20, AtOnce: 21, Status: 503, recipe: nginxLimit("20r/s", "burst=20", "")},
		{Name: "nginx-200", Rule: "limit_req 200 r/s, burst 20 nodelay: 503", Nominal: 200, Available: 200, AtOnce: 21, Status: 503, Fast: true, recipe: nginxLimit("200r/s", "burst=20 nodelay", "")},
		{Name: "nginx-conn", Rule: "limit_conn 4, each answer takes 200 ms: 503", Nominal: 20, Available: 20, AtOnce: 4, InFlight: 4, Status: 503, recipe: nginxConcurrency()},
		{Name: "haproxy", Rule: "stick-table, > 200 in 10 s: 429, Retry-After 10", Nominal: 20, Available: 20, AtOnce: 200, Status: 429, RetryAfter: true, recipe: haproxyLimit(200, 10, 10)},
		{Name: "mod_qos", Rule: "200 per 10 s: 503", Nominal: 20, Available: 199.0 / 11, AtOnce: 199, Status: 503, Why: qosWhy, recipe: modQoS(200, 10)},
		{Name: "mod_evasive", Rule: "> 20 in a second: 403 for 10 s, renewed", Nominal: 20, Available: 20, AtOnce: 20, Status: 403, recipe: modEvasive(20, 10)},
		{Name: "varnish", Rule: "vsthrottle, bucket of 200 per 10 s: 429", Nominal: 20, Available: 20, AtOnce: 200, Status: 429, recipe: varnish(200, "10s")},
		{Name: "flask-limiter", Rule: "moving window, 200 per 10 s: 429, quota headers", Nominal: 20, Available: 20, AtOnce: 200, Status: 429, RetryAfter: true, recipe: flask(200, 10, true)},
	}
}

// Others are the same servers with other limits, two of each.
func Others() []Kind {
	return []Kind{
		{Name: "nginx-12", Rule: "limit_req 12 r/s, burst 8 nodelay: 429", Nominal: 12, Available: 12, AtOnce: 9, Status: 429, recipe: nginxLimit("12r/s", "burst=8 nodelay", "limit_req_status 429;")},
		{Name: "nginx-45", Rule: "limit_req 45 r/s, burst 3 nodelay: 429", Nominal: 45, Available: 45, AtOnce: 4, Status: 429, recipe: nginxLimit("45r/s", "burst=3 nodelay", "limit_req_status 429;")},
		{Name: "nginx-30-503", Rule: "limit_req 30 r/s, burst 10 nodelay: 503", Nominal: 30, Available: 30, AtOnce: 11, Status: 503, recipe: nginxLimit("30r/s", "burst=10 nodelay", "")},
		{Name: "nginx-6-503", Rule: "limit_req 6 r/s, burst 2 nodelay: 503", Nominal: 6, Available: 6, AtOnce: 3, Status: 503, recipe: nginxLimit("6r/s", "burst=2 nodelay", "")},
		{Name: "haproxy-120-6", Rule: "stick-table, > 120 in 6 s: 429", Nominal: 20, Available: 20, AtOnce: 120, Status: 429, recipe: haproxyLimit(120, 6, 0)},
		{Name: "haproxy-500-20", Rule: "stick-table, > 500 in 20 s: 429, Retry-After 5", Nominal: 25, Available: 25, AtOnce: 500, Status: 429, RetryAfter: true, recipe: haproxyLimit(500, 20, 5)},
		{Name: "mod_qos-100-4", Rule: "100 per 4 s: 503", Nominal: 25, Available: 99.0 / 5, AtOnce: 99, Status: 503, Why: qosWhy, recipe: modQoS(100, 4)},
		{Name: "mod_qos-300-20", Rule: "300 per 20 s: 503", Nominal: 15, Available: 299.0 / 21, AtOnce: 299, Status: 503, Why: qosWhy, recipe: modQoS(300, 20)},
		{Name: "mod_evasive-12", Rule: "> 12 in a second: 403 for 10 s, renewed", Nominal: 12, Available: 12, AtOnce: 12, Status: 403, recipe: modEvasive(12, 10)},
		{Name: "mod_evasive-35", Rule: "> 35 in a second: 403 for 20 s, renewed", Nominal: 35, Available: 35, AtOnce: 35, Status: 403, recipe: modEvasive(35, 20)},
		{Name: "varnish-60-4", Rule: "vsthrottle, bucket of 60 per 4 s: 429", Nominal: 15, Available: 15, AtOnce: 60, Status: 429, recipe: varnish(60, "4s")},
		{Name: "varnish-100-5-15", Rule: "vsthrottle, bucket of 100 per 5 s: 429, blocks for 15 s", Nominal: 20, Available: 20, AtOnce: 100, Status: 429, recipe: varnish(100, "5s, 15s")},
		{Name: "flask-limiter-120-8", Rule: "moving window, 120 per 8 s: 429", Nominal: 15, Available: 15, AtOnce: 120, Status: 429, recipe: flask(120, 8, false)},
		{Name: "flask-limiter-300-20", Rule: "moving window, 300 per 20 s: 429, quota headers", Nominal: 15, Available: 15, AtOnce: 300, Status: 429, RetryAfter: true, recipe: flask(300, 20, true)},
	}
}

// Kept are the same servers once more, chosen before any of them was measured, for a final run.
func Kept() []Kind {
	return []Kind{
		{Name: "nginx-25", Rule: "limit_req 25 r/s, burst 12 nodelay: 429", Nominal: 25, Available: 25, AtOnce: 13, Status: 429, recipe: nginxLimit("25r/s", "burst=12 nodelay", "limit_req_status 429;")},
		{Name: "nginx-9-503", Rule: "limit_req 9 r/s, burst 4 nodelay: 503", Nominal: 9, Available: 9, AtOnce: 5, Status: 503, recipe: nginxLimit("9r/s", "burst=4 nodelay", "")},
		{Name: "haproxy-80-5", Rule: "stick-table, > 80 in 5 s: 429, Retry-After 3", Nominal: 16, Available: 16, AtOnce: 80, Status: 429, RetryAfter: true, recipe: haproxyLimit(80, 5, 3)},
		{Name: "mod_qos-160-8", Rule: "160 per 8 s: 503", Nominal: 20, Available: 159.0 / 9, AtOnce: 159, Status: 503, Why: qosWhy, recipe: modQoS(160, 8)},
		{Name: "mod_evasive-18", Rule: "> 18 in a second: 403 for 10 s, renewed", Nominal: 18, Available: 18, AtOnce: 18, Status: 403, recipe: modEvasive(18, 10)},
		{Name: "varnish-150-10-20", Rule: "vsthrottle, bucket of 150 per 10 s: 429, blocks for 20 s", Nominal: 15, Available: 15, AtOnce: 150, Status: 429, recipe: varnish(150, "10s, 20s")},
		{Name: "flask-limiter-80-4", Rule: "moving window, 80 per 4 s: 429, quota headers", Nominal: 20, Available: 20, AtOnce: 80, Status: 429, RetryAfter: true, recipe: flask(80, 4, true)},
	}
}

// Compared are the servers of docs/benchmarks.md, whose limits were chosen before any client met them.
func Compared() []Kind {
	return []Kind{
		{Name: "nginx-16", Rule: "limit_req 16 r/s, burst 6 nodelay: 429", Nominal: 16, Available: 16, AtOnce: 7, Status: 429, recipe: nginxLimit("16r/s", "burst=6 nodelay", "limit_req_status 429;")},
		{Name: "haproxy-170-10", Rule: "stick-table, > 170 in 10 s: 429, Retry-After 4", Nominal: 17, Available: 17, AtOnce: 170, Status: 429, RetryAfter: true, recipe: haproxyLimit(170, 10, 4)},
		{Name: "mod_qos-180-9", Rule: "180 per 9 s: 503", Nominal: 20, Available: 179.0 / 10, AtOnce: 179, Status: 503, Why: qosWhy, recipe: modQoS(180, 9)},
		{Name: "mod_evasive-22", Rule: "> 22 in a second: 403 for 10 s, renewed", Nominal: 22, Available: 22, AtOnce: 22, Status: 403, recipe: modEvasive(22, 10)},
		{Name: "varnish-130-8", Rule: "vsthrottle, bucket of 130 per 8 s: 429", Nominal: 16.25, Available: 16.25, AtOnce: 130, Status: 429, recipe: varnish(130, "8s")},
		{Name: "flask-limiter-170-10", Rule: "moving window, 170 per 10 s: 429, quota headers", Nominal: 17, Available: 17, AtOnce: 170, Status: 429, RetryAfter: true, recipe: flask(170, 10, true)},
	}
}

const qosWhy = "it refuses the last one, and the window lasts a second more"

// Program runs a program of the caller's, whose first word is looked for in the path and whose standard output
// is the log of hits. In words and files {{.Dir}}, {{.Host}}, {{.Port}} and {{.Page}} are filled in.
func Program(tb testing.TB, files map[string]string, words ...string) *Server {
	tb.Helper()
	return start(tb, recipe{files: files, commands: []command{{words: words, logs: true}}})
}

// Nginx serves the files below root. The directives in http go into the http block,
// those in location into the location; a location may send a refusal to "@limited",
// which answers 429 with Retry-After 1.
func Nginx(tb testing.TB, root, http, location string) *Server {
	tb.Helper()
	return start(tb, nginx(root, http, location))
}

func nginx(root, http, location string) recipe {
	text := expand(conf("nginx.conf"), "HTTP", http, "LOCATION", location)
	return recipe{
		serve:    "root " + root,
		pass:     "proxy_pass http://{{.Upstream}}; proxy_http_version 1.1; proxy_set_header Connection ''",
		files:    map[string]string{"nginx.conf": text},
		commands: []command{{words: []string{"nginx", "-p", "{{.Dir}}", "-e", "{{.Dir}}/error.log", "-c", "{{.Dir}}/nginx.conf"}}},
	}
}

func nginxLimit(rate, burst, status string) recipe {
	return nginx("{{.Root}}",
		"limit_req_zone $binary_remote_addr zone=z:1m rate="+rate+"; "+status,
		"limit_req zone=z "+burst+";")
}

// answerTime is what an answer takes behind limit_conn: four at a time make 20 a second.
const answerTime = 200 * time.Millisecond

func nginxConcurrency() recipe {
	r := nginx("{{.Root}}",
		"limit_conn_zone $binary_remote_addr zone=z:1m;",
		"limit_conn z 4; proxy_pass http://{{.Upstream}}; proxy_http_version 1.1; proxy_set_header Connection '';")
	r.prepare, r.pass = startBack(answerTime), ""
	return r
}

// HAProxy passes everything on to the address. The directives go into the backend.
func HAProxy(tb testing.TB, upstream, directives string) *Server {
	tb.Helper()
	return start(tb, haproxy(expand(conf("passing.cfg"), "UPSTREAM", upstream, "DIRECTIVES", directives)))
}

func haproxy(text string) recipe {
	return recipe{
		files:    map[string]string{"haproxy.cfg": text},
		commands: []command{{words: []string{"haproxy", "-db", "-f", "{{.Dir}}/haproxy.cfg"}, logs: true}},
	}
}

// haproxyLimit refuses who has sent more than that in so many seconds, with a Retry-After unless that is zero.
func haproxyLimit(count, period, after int) recipe {
	header, told := "", "str(-)"
	if after > 0 {
		header = "hdr Retry-After " + strconv.Itoa(after)
		told = fmt.Sprintf("int(%d)", after)
	}
	r := haproxy(expand(conf("haproxy.cfg"), "COUNT", strconv.Itoa(count), "PERIOD", strconv.Itoa(period), "int(AFTER)", told, "HEADER", header))
	r.serve = "  http-request return status 200 content-type text/html file {{.Root}}/page.html"
	r.pass = "  default_backend b\nbackend b\n  server s {{.Upstream}}"
	return r
}

const apacheModules = "/usr/lib/apache2/modules"

// apacheUser is needed by a server that root starts, and refused to any other.
func apacheUser() string {
	if os.Geteuid() == 0 {
		return "User www-data\nGroup www-data"
	}
	return ""
}

func apache(name, file, directives string) recipe {
	path := filepath.Join(apacheModules, file)
	text := expand(conf("apache.conf"), "MODULES", apacheModules, "USER", apacheUser()) +
		expand(directives, "MODULE", "LoadModule "+name+" "+path)
	return recipe{
		needs: []string{path},
		serve: "DocumentRoot {{.Root}}",
		pass: expand(`LoadModule proxy_module MODULES/mod_proxy.so
LoadModule proxy_http_module MODULES/mod_proxy_http.so
ProxyPass / http://{{.Upstream}}/ retry=0`, "MODULES", apacheModules),
		files:    map[string]string{"apache.conf": text},
		commands: []command{{words: []string{"apache2", "-DFOREGROUND", "-d", "{{.Dir}}", "-f", "{{.Dir}}/apache.conf"}}},
	}
}

// modQoS limits requests per client with mod_qos, which may need a library loaded first. It
// refuses the request that reaches the count already.
func modQoS(count, period int) recipe {
	return apache("qos_module", "mod_qos.so", `
`+loadFile("/usr/lib/*/libpcre.so.3")+`
MODULE
QS_ErrorResponseCode 503
SetEnvIf Request_URI . QS_Limit=1
QS_ClientEventLimitCount `+fmt.Sprint(count, " ", period)+"\n")
}

// modEvasive limits requests to the whole site, by seconds of the clock: one more than the count blocks the client
// for that many seconds from its last request. The count per page, which cannot be turned off, is out of reach.
func modEvasive(count, block int) recipe {
	return apache("evasive20_module", "mod_evasive20.so", `
MODULE
DOSHashTableSize 3097
DOSPageCount 1000000
DOSPageInterval 1
DOSSiteInterval 1
DOSLogDir {{.Dir}}
`+fmt.Sprintf("DOSSiteCount %d\nDOSBlockingPeriod %d\n", count, block))
}

func loadFile(pattern string) string {
	if path := module(pattern); path != pattern {
		return "LoadFile " + path
	}
	return ""
}

// varnish is told the times of vsthrottle: a period, and how long a refusal blocks if there is a second.
func varnish(count int, times string) recipe {
	return recipe{
		needs: []string{module("/usr/lib/*/varnish/vmods/libvmod_vsthrottle.so")},
		late:  true,
		serve: `sub vcl_recv { return (synth(200, "OK")); } backend default none;`,
		pass:  `backend default { .host = "{{.Host}}"; .port = "{{.UpstreamPort}}"; } sub vcl_recv { return (pass); }`,
		files: map[string]string{"default.vcl": expand(conf("default.vcl"), "COUNT", strconv.Itoa(count), "TIMES", times)},
		commands: []command{
			{words: []string{
				"varnishd", "-F", "-j", "none", "-n", "{{.Dir}}/varnish", "-f", "{{.Dir}}/default.vcl", "-a", "{{.Addr}}",
				"-s", "default,16m", "-l", "16m", "-p", "timeout_idle=60",
			}},
			{words: []string{
				"varnishncsa", "-n", "{{.Dir}}/varnish", "-F",
				"at=%{VSL:Timestamp:Start[1]}x status=%s after=%{Retry-After}o request=%m %U%q",
				"-w", "{{.Log}}",
			}},
		},
	}
}

// module is the path that a pattern matches, or the pattern itself.
func module(pattern string) string {
	if paths, err := filepath.Glob(pattern); err == nil && len(paths) > 0 {
		return paths[0]
	}
	return pattern
}

// flask runs under the system's Python, for which the packages are installed.
func flask(count, period int, headers bool) recipe {
	const python, limiter = "/usr/bin/python3", "/usr/lib/python3/dist-packages/flask_limiter"
	has := "False"
	if headers {
		has = "True"
	}
	app := expand(conf("app.py"), "COUNT", strconv.Itoa(count), "PERIOD", strconv.Itoa(period), "=HEADERS", "="+has)
	return recipe{
		needs:    []string{python, limiter, "/usr/lib/python3/dist-packages/waitress"},
		files:    map[string]string{"app.py": app},
		commands: []command{{words: []string{python, "{{.Dir}}/app.py"}, logs: true}},
	}
}
