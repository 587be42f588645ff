package integration_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl"
)

// The cap is for all who wait for the host: the limiter, and the retry around it.
func TestClientMaxRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		c, _ := politeClient(t, crawl.ClientConfig{MaxRetryAfter: 5 * time.Second}, map[string]http.Handler{
			"a.test": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if asked++; asked == 1 {
					w.Header().Set("Retry-After", "1800")
					w.WriteHeader(http.StatusServiceUnavailable)
				}
			}),
		})
		begun := time.Now()
		fetchText(t, c, "http://a.test/")
		require.Equal(t, 2, asked)
		require.Less(t, time.Since(begun), time.Minute)
	})
}

// upgraded answers 101 and then each line with itself.
func upgraded(w http.ResponseWriter, _ *http.Request) {
	conn, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	_, _ = rw.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
	for err == nil {
		_ = rw.Flush()
		var line string
		line, err = rw.ReadString('\n')
		_, _ = rw.WriteString(line)
	}
}

// What speaks another protocol is cut by no timeout, and by Close.
func TestClientCloseEndsUpgrades(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := politeClient(t, crawl.ClientConfig{}, map[string]http.Handler{"a.test": http.HandlerFunc(upgraded)})
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://a.test/", http.NoBody)
		require.NoError(t, err)
		req.Header = http.Header{"Connection": {"Upgrade"}, "Upgrade": {"echo"}}
		res, err := c.Do(req)
		require.NoError(t, err)
		require.Equal(t, http.StatusSwitchingProtocols, res.StatusCode)
		both, ok := res.Body.(io.ReadWriteCloser)
		require.True(t, ok)
		defer both.Close()
		lines := bufio.NewReader(both)
		for range 2 {
			_, err = fmt.Fprintln(both, "line")
			require.NoError(t, err)
			line, err := lines.ReadString('\n')
			require.NoError(t, err)
			require.Equal(t, "line\n", line)
			time.Sleep(time.Hour)
		}
		failed := make(chan error)
		go func() {
			_, err := lines.ReadString('\n')
			failed <- err
		}()
		synctest.Wait()
		require.NoError(t, c.Close())
		require.Error(t, <-failed)
	})
}
