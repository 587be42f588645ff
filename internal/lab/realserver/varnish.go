package realserver

import "path/filepath"

// varnishConf answers by itself: there is nothing to cache and nobody behind it.
// vsthrottle fills a bucket of 200 over 10 s and starts with a full one. It adds whole
// tokens only, for the time since the last request it admitted: whoever asks at 50 ms,
// give or take, gets a token or none and drains the bucket, and whoever asks a quarter too
// often gets half. An even pace a little under 20 per second gets all of it.
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

// varnish needs its logger beside it, which reads what the server leaves in memory.
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

// module is the path that a pattern with the machine's architecture left open stands
// for, or the pattern itself, which then says what is missing.
func module(pattern string) string {
	if paths, err := filepath.Glob(pattern); err == nil && len(paths) > 0 {
		return paths[0]
	}
	return pattern
}
