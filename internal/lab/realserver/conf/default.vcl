vcl 4.1;
# vsthrottle fills a bucket of COUNT over a period with whole tokens, for the time since the last request
# it admitted: a client with jitter around the time of a token drains it, and an even pace a little slower gets all of it.
import vsthrottle;
sub vcl_recv {
  if (req.url ~ "^/mark-") { return (synth(204, "No Content")); }
  if (vsthrottle.is_denied(client.ip + "", COUNT, TIMES)) { return (synth(429, "Too Many Requests")); }
}
SERVE
sub vcl_synth {
  set resp.http.Content-Type = "text/html";
  set resp.body = {"{{.Page}}"};
  return (deliver);
}
