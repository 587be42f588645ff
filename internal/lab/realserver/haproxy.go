package realserver

import "testing"

// haproxyConf counts every request, refused or not, as in the examples of its manual. The count includes a
// part of the period before, so that after a burst the ten seconds of the Retry-After are not enough.
const haproxyConf = `
global
  log stdout format raw local0
  maxconn 256
defaults
  mode http
  log global
  option dontlognull
  option http-ignore-probes
  timeout client 60s
  timeout server 60s
  timeout connect 5s
  timeout http-keep-alive 60s
frontend f
  bind {{.Addr}}
  log-format "at_ms=%[var(txn.at)] status=%ST after=%[var(txn.after)] request=%{-E}[capture.req.method] %[capture.req.uri]"
  stick-table type ip size 1m expire 60s store http_req_rate(10s)
  http-request set-var(txn.at) date(0,ms)
  http-request track-sc0 src
  http-request set-var(txn.after) int(10) if { sc_http_req_rate(0) gt 200 }
  http-request deny deny_status 429 hdr Retry-After 10 if { sc_http_req_rate(0) gt 200 }
  http-request return status 200 content-type text/html file {{.Root}}/page.html
`

// passingConf passes everything on.
const passingConf = `
defaults
  mode http
  option http-ignore-probes
  timeout client 60s
  timeout server 60s
  timeout connect 5s
frontend f
  bind {{.Addr}}
  default_backend b
backend b
  DIRECTIVES
  server s UPSTREAM
`

// HAProxy passes everything on to the address. The directives go into the backend.
func HAProxy(tb testing.TB, upstream, directives string) *Server {
	tb.Helper()
	return start(tb, haproxy(expand(passingConf, "UPSTREAM", upstream, "DIRECTIVES", directives)))
}

func haproxy(conf string) recipe {
	return recipe{
		files:    map[string]string{"haproxy.cfg": conf},
		commands: []command{{words: []string{"haproxy", "-db", "-f", "{{.Dir}}/haproxy.cfg"}, logs: true}},
	}
}
