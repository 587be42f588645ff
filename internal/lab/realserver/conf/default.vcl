vcl 4.1;
# No backend. vsthrottle fills a bucket of COUNT over a period with whole tokens, for the time since the last request
# it admitted: a client with jitter around the time of a token drains it, and an even pace a little slower gets all of it.
import vsthrottle;
backend default none;
sub vcl_recv {
  if (req.url ~ "^/mark-") { return (synth(204, "No Content")); }
  if (vsthrottle.is_denied(client.ip + "", COUNT, TIMES)) { return (synth(429, "Too Many Requests")); }
  return (synth(200, "OK"));
}
sub vcl_synth {
  set resp.http.Content-Type = "text/html";
  set resp.body = {"{{.Page}}"};
  return (deliver);
}
