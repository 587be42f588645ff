package realserver_test

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/treadlight/crawl/internal/lab/realserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// settle gives a server that logs a request when its connection ends the time to do so before it is told
// to stop: on a busy machine the last line was lost.
func settle(s *realserver.Server, told map[answer]int) {
	all := 0
	for _, n := range told {
		all += n
	}
	for range 100 {
		if len(s.Hits()) >= all {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// Each server admits what its description says, refuses as it says, and logs what the
// client was told.
func TestKinds(t *testing.T) {
	for _, k := range append(realserver.Kinds(), realserver.Others()...) {
		t.Run(k.Name, func(t *testing.T) {
			t.Parallel()
			s := k.Start(t)
			told := askUntilRefused(t, s)
			settle(s, told)
			s.Stop()
			hits := s.Hits()
			logged := map[answer]int{}
			admitted := 0
			for _, h := range hits {
				logged[answer{h.Status, h.RetryAfter}]++
				if h.Status == http.StatusOK {
					admitted++
				}
			}
			require.Equal(t, told, logged, "what the client was told and what the log says")
			requireRefusals(t, k, told)
			require.GreaterOrEqual(t, admitted, k.AtOnce)
			span := hits[len(hits)-1].At.Sub(hits[0].At).Seconds()
			require.LessOrEqual(t, float64(admitted), float64(k.AtOnce)+k.Nominal*(span+1), "in %.3fs", span)
		})
	}
}

func requireRefusals(t *testing.T, k realserver.Kind, told map[answer]int) {
	t.Helper()
	refused := 0
	for a, n := range told {
		if a.status == http.StatusOK {
			continue
		}
		refused += n
		require.Equal(t, k.Status, a.status)
		require.Equal(t, k.RetryAfter, a.after > 0)
	}
	require.NotZero(t, refused)
}

// answer is what a client learns of a limit.
type answer struct {
	status int
	after  time.Duration
}

// askUntilRefused asks with more requests at a time than any queue here holds, until
// the first refusal is known, and returns how often each answer came.
func askUntilRefused(t *testing.T, s *realserver.Server) map[answer]int {
	t.Helper()
	const atATime = 32
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: atATime}}
	defer client.CloseIdleConnections()
	refused, stop := context.WithTimeout(t.Context(), time.Minute) // far beyond what any limit here takes
	defer stop()
	var workers sync.WaitGroup
	var mu sync.Mutex // guards what follows
	told, n := map[answer]int{}, 0
	for range atATime {
		workers.Go(func() {
			for refused.Err() == nil {
				mu.Lock()
				url := s.Page(n)
				n++
				mu.Unlock()
				got, err := ask(client, url)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				told[got]++
				mu.Unlock()
				if got.status != http.StatusOK {
					stop()
				}
			}
		})
	}
	workers.Wait()
	return told
}

func ask(client *http.Client, url string) (answer, error) {
	resp, err := client.Get(url)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return answer{}, err
	}
	var after time.Duration
	if v := resp.Header.Get("Retry-After"); v != "" {
		after, err = time.ParseDuration(v + "s")
	}
	return answer{resp.StatusCode, after}, err
}

// A directory of one's own choice is served, and a refusal can be sent where it gets a
// Retry-After.
func TestNginx(t *testing.T) {
	root := t.TempDir()
	if os.Geteuid() == 0 { // nginx reads as nobody, to whom a test's directories are closed
		require.NoError(t, os.Chmod(filepath.Dir(root), 0o755))
	}
	require.NoError(t, os.WriteFile(filepath.Join(root, "a.txt"), []byte("hello"), 0o644))
	s := realserver.Nginx(t, root, "limit_req_zone $binary_remote_addr zone=z:1m rate=1r/m; limit_req_status 429;",
		"limit_req zone=z; error_page 429 = @limited;")
	client := &http.Client{}
	defer client.CloseIdleConnections()
	got, err := ask(client, s.URL+"/a.txt?b")
	require.NoError(t, err)
	require.Equal(t, answer{status: 200}, got)
	got, err = ask(client, s.URL+"/a.txt")
	require.NoError(t, err)
	require.Equal(t, answer{429, time.Second}, got)
	s.Stop()
	s.Stop() // does nothing
	hits := s.Hits()
	require.Len(t, hits, 2)
	require.Equal(t, "/a.txt?b", hits[0].URI)
	require.Equal(t, time.Second, hits[1].RetryAfter)
	_, err = client.Get(s.URL)
	require.Error(t, err, "it has ended")
}

// What is behind a server fails when it is away, and answers again when it is back.
func TestAway(t *testing.T) {
	for _, k := range append(realserver.Kinds(), realserver.Others()...) {
		switch k.Name {
		case "nginx-20", "haproxy", "mod_evasive", "varnish", "flask-limiter":
		default:
			continue
		}
		t.Run(k.Name, func(t *testing.T) {
			t.Parallel()
			s := k.StartBefore(t)
			client := &http.Client{}
			defer client.CloseIdleConnections()
			was := false
			for _, gone := range []bool{false, true, false} {
				if gone != was {
					s.Away(gone)
				}
				was = gone
				require.Eventually(t, func() bool { // Varnish does not ask again at once
					got, err := ask(client, s.Page(0))
					return err == nil && gone == (got.status >= http.StatusInternalServerError)
				}, time.Minute, 100*time.Millisecond)
			}
		})
	}
}
