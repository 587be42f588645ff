package realserver

import "path/filepath"

// varnishConf has no backend. vsthrottle fills a bucket of 200 over 10 s with whole tokens, for
// the time since the last request it admitted: a client with jitter around 50 ms drains the
// bucket, and an even pace a little under 20 per second gets all of it.
const varnishConf = `
vcl 4.1;
import vsthrottle;
backend default none;
sub vcl_recv {
  if (req.url ~ "^/mark-") { return (synth(204, "No Content")); }
  if (vsthrottle.is_denied(client.ip + "", 200, 10s)) { return (synth(429, "Too Many Requests")); }
  return (synth(200, "OK"));
}
sub vcl_synth {
  set resp.http.Content-Type = "text/html";
  set resp.body = {"{{.Page}}"};
  return (deliver);
}
`

// varnish logs by a second program.
func varnish() recipe {
	return recipe{
		needs: []string{module("/usr/lib/*/varnish/vmods/libvmod_vsthrottle.so")},
		late:  true,
		files: map[string]string{"default.vcl": varnishConf},
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
