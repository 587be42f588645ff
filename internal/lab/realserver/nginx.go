package realserver

import (
	"context"
	"errors"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/treadlight/crawl/internal/clock"
)

// nginxConf logs $request because $request_uri is empty when nginx refuses it.
const nginxConf = `
worker_processes 1;
pid {{.Dir}}/nginx.pid;
error_log {{.Dir}}/error.log;
daemon off;
events { worker_connections 512; }
http {
  types { text/html html htm; text/plain txt; text/css css; application/javascript js; image/png png; image/svg+xml svg; }
  default_type application/octet-stream;
  log_format hit 'end=$msec took=$request_time status=$status after=$sent_http_retry_after request=$request';
  access_log {{.Log}} hit;
  client_body_temp_path {{.Dir}}/b; proxy_temp_path {{.Dir}}/p; fastcgi_temp_path {{.Dir}}/f; uwsgi_temp_path {{.Dir}}/u; scgi_temp_path {{.Dir}}/s;
  keepalive_requests 100000;
  HTTP
  server {
    listen {{.Addr}};
    location / { root ROOT; absolute_redirect on; LOCATION }
    location @limited { internal; add_header Retry-After 1 always; return 429 "slow down\n"; }
  }
}`

// Nginx serves the files below root. The directives in http go into the http block,
// those in location into the location; a location may send a refusal to "@limited",
// which answers 429 with Retry-After 1.
func Nginx(tb testing.TB, root, http, location string) *Server {
	tb.Helper()
	return start(tb, nginx(root, http, location))
}

func nginx(root, http, location string) recipe {
	conf := expand(nginxConf, "ROOT", root, "HTTP", http, "LOCATION", location)
	return recipe{
		files:    map[string]string{"nginx.conf": conf},
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
	r.prepare = slowUpstream
	return r
}

// slowUpstream starts a server behind s that serves the same page after answerTime.
func slowUpstream(s *Server) (string, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	up := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if clock.Sleep(r.Context(), clock.System(), answerTime) != nil {
			return
		}
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte(page)) // a client that has gone has its own reasons
	})}
	done := make(chan error, 1)
	go func() { done <- up.Serve(ln) }()
	s.after = append(s.after, func() {
		ctx, cancel := context.WithTimeout(context.Background(), grace)
		defer cancel()
		_ = up.Shutdown(ctx)
		_ = up.Close() // of whoever did not leave in time
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			s.tb.Errorf("realserver: upstream: %v", err)
		}
	})
	return ln.Addr().String(), nil
}
