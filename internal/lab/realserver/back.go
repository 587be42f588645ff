package realserver

import (
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/clock"
)

// awayName is a file of a server's directory. While it is there a program of [Program] fails, as {{.Away}} tells it.
const awayName = "away"

// Away stops the application that a server of [Kind.StartBefore] or [Program] passes requests on to, or starts it again.
// The limit goes on counting meanwhile, and what is admitted fails as that server has it.
// It may be called on any goroutine of the test.
func (s *Server) Away(gone bool) {
	s.tb.Helper()
	file := filepath.Join(s.dir, awayName)
	switch {
	case s.back != nil && gone:
		s.back.stop()
	case s.back != nil:
		assert.NoError(s.tb, s.back.start())
	case gone:
		assert.NoError(s.tb, os.WriteFile(file, nil, 0o644)) //nolint:gosec // to be seen by all
	default:
		assert.NoError(s.tb, os.Remove(file))
	}
}

// back is an application that serves the page.
type back struct {
	addr    string
	takes   time.Duration // each answer
	server  *http.Server
	serving sync.WaitGroup
}

// startBack starts an application behind s.
func startBack(takes time.Duration) func(*Server) (addr string) {
	return func(s *Server) string {
		s.back = &back{addr: FreeAddr(s.tb), takes: takes}
		require.NoError(s.tb, s.back.start())
		s.after = append(s.after, s.back.stop)
		return s.back.addr
	}
}

// start listens at the address. It tries for a while: whoever connected from that port meanwhile is soon gone.
func (b *back) start() error {
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	for {
		ln, err := net.Listen("tcp", b.addr)
		if err != nil {
			if clock.Sleep(ctx, clock.System(), 10*time.Millisecond) != nil {
				return err
			}
			continue
		}
		b.server = &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if clock.Sleep(r.Context(), clock.System(), b.takes) != nil {
				return
			}
			w.Header().Set("Content-Type", "text/html")
			_, _ = w.Write([]byte(page)) // a client that has gone has its own reasons
		})}
		b.serving.Go(func() { _ = b.server.Serve(ln) }) // always an error, once it is closed
		return nil
	}
}

func (b *back) stop() {
	_ = b.server.Close()
	b.serving.Wait()
}
