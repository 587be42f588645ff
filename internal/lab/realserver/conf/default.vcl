vcl 4.1;
# No backend. vsthrottle fills a bucket of 200 over 10 s with whole tokens, for the time since the last request
# it admitted: a client with jitter around 50 ms drains it, and an even pace a little under 20/s gets all of it.
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
