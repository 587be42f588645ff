//go:build unix

package redis

import (
	"context"
	"crypto/x509"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/lab/redistest"
)

// reach opens a job by a URL, with what vouches for the server; nil: what the system has.
func reach(t *testing.T, url string, roots *x509.CertPool) (*Store, error) {
	t.Helper()
	o, err := rueidis.ParseURL(url)
	require.NoError(t, err)
	if roots != nil {
		o.TLSConfig.RootCAs = roots
	}
	if o.TLSConfig != nil && roots != nil && !strings.Contains(url, "@") {
		o.Dialer.Timeout = 200 * time.Millisecond // what speaks no TLS says nothing
	}
	ctx, cancel := context.WithTimeout(t.Context(), redistest.Patience)
	defer cancel()
	s, err := Open(ctx, Config{Redis: o, Job: "j", partitions: 2})
	if err == nil {
		t.Cleanup(func() { _ = s.Close() })
	}
	return s, err
}

// Every way of not being let in is told with what helps, by both programs, and no error has
// the password in it. Who is let in can do all that a crawl does.
func TestAccess(t *testing.T) {
	redistest.OnEach(t, func(t *testing.T, p redistest.Program) {
		secure := redistest.NewTLS(t)
		srv := p.Start(t, secure.Args...)
		for _, user := range [][]string{
			{"least", "~crawl:*", "~rate_limiter:*", "+@read", "+@write", "+@scripting", "+@connection", "+info", "+time"}, // as Least says
			{"noscript", "~*", "+@all", "-@scripting"}, {"nokeys", "~other:*", "+@all"}, {"noinfo", "~*", "+@all", "-info"}, {"notime", "~*", "+@all", "-time"},
		} {
			srv.Do(t, append([]string{"ACL", "SETUSER", user[0], "on", ">hunter2"}, user[1:]...)...)
		}
		srv.Do(t, "ACL", "SETUSER", "off", "off", ">hunter2")
		host, port, err := net.SplitHostPort(srv.Addr)
		require.NoError(t, err)
		replica := p.Start(t, "--replicaof", host+" "+port)
		locked := p.Start(t, "--requirepass", "hunter2")
		web := httptest.NewServer(http.NotFoundHandler())
		defer web.Close()
		pem, err := os.ReadFile(secure.CAFile)
		require.NoError(t, err)
		roots := x509.NewCertPool()
		require.True(t, roots.AppendCertsFromPEM(pem))

		for _, tc := range []struct {
			url   string
			roots *x509.CertPool
			want  string
		}{
			{"redis://" + locked.Addr, nil, "the server wants a password"},
			{"redis://:hunter3@" + locked.Addr, nil, "does not know that user with that password"},
			{"redis://joe:hunter2@" + locked.Addr, nil, "does not know that user with that password"},
			{"redis://off:hunter2@" + srv.Addr, nil, "or the user is off"},
			{"redis://noscript:hunter2@" + srv.Addr, nil, "ACL SETUSER it ~crawl:* ~rate_limiter:* +@read"},
			{"redis://nokeys:hunter2@" + srv.Addr, nil, "ACL SETUSER it ~crawl:* ~rate_limiter:* +@read"},
			{"redis://noinfo:hunter2@" + srv.Addr, nil, "ACL SETUSER it ~crawl:* ~rate_limiter:* +@read"},
			{"redis://notime:hunter2@" + srv.Addr, nil, "ACL SETUSER it ~crawl:* ~rate_limiter:* +@read"},
			{"rediss://" + secure.Addr, nil, "give the file of the authority that vouches for the server"},
			{"redis://" + secure.Addr, nil, "if it wants TLS, let the URL begin with rediss://"},
			{"rediss://" + srv.Addr, roots, "speaks TLS at that port"},
			{"redis://" + web.Listener.Addr().String(), nil, "what answers there is no Redis"},
			{"redis://" + replica.Addr, nil, "is a replica of " + srv.Addr},
			{"redis://" + srv.Addr + "/99", nil, "leave out the number"},
			{"redis://" + srv.Addr + "?master_set=x", nil, "that is no Sentinel"},
			{"redis://127.0.0.1:1", nil, "see that the server is there"},
		} {
			_, err := reach(t, tc.url, tc.roots)
			require.ErrorContains(t, err, tc.want, tc.url)
			require.NotContains(t, err.Error(), "hunter")
		}
		for url, roots := range map[string]*x509.CertPool{
			"redis://:hunter2@" + locked.Addr: nil, "redis://least:hunter2@" + srv.Addr: nil, "rediss://least:hunter2@" + secure.Addr: roots,
		} {
			letIn(t, url, roots)
		}
	})
}

func letIn(t *testing.T, url string, roots *x509.CertPool) {
	t.Helper()
	s, err := reach(t, url, roots)
	require.NoError(t, err, url)
	put(t, s, "http://a.test/")
	require.Equal(t, []string{"a.test"}, names(activate(t, s, 9)))
	_, got := load(t, s, "a.test", 9)
	require.Len(t, got.Items, 1)
	s.Done("a.test", &got.Items[0], frontier.Visit{})
	require.NoError(t, s.Close())
	f, err := Dial(t.Context(), s.cfg.Redis, "j")
	require.NoError(t, err)
	defer f.Close()
	st := statusOf(t, f)
	require.Zero(t, st.Queued)
	keys, err := f.Purge(t.Context())
	require.NoError(t, err, "the least rights are enough for that, too")
	require.Positive(t, keys)
}
