package watch

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/cmd/crawl/internal/job"
	"github.com/treadlight/crawl/internal/clock/clocktest"
)

// A file keeps lines that others have appended, and has each change once even if it was written but not committed.
func TestFileOfOthers(t *testing.T) {
	for name, tc := range map[string]struct{ added, want string }{
		"nothing":                        {"", one + two + three},
		"a part of a change":             {two[:5], one + two + three},
		"a change":                       {two, one + two + three},
		"a change and a part of another": {two + three[:4], one + two + three},
		"a line of others":               {"other\n", one + "other\n" + two + three},
		"a change and one of others":     {two + "other\n", one + two + "other\n" + three},
		"a line of others, not ended":    {"other", one + "other\n" + two + three},
		"many lines of others":           {strings.Repeat("other\n", 100), one + strings.Repeat("other\n", 100) + two + three},
	} {
		t.Run(name, func(t *testing.T) {
			w, of, add := watchedAfter(t, tc.added)
			ended, end := context.WithCancel(t.Context())
			end()
			text, err := os.ReadFile(w.file)
			require.NoError(t, err)
			require.Equal(t, of(tc.want), string(text))

			require.NoError(t, os.Truncate(w.file, 0)) // as logrotate does
			add(one)
			require.NoError(t, w.out.Run(ended, w.o.Log))
			text, err = os.ReadFile(w.file)
			require.NoError(t, err)
			require.Equal(t, of(one), string(text))
			w.end()
		})
	}
}

// Messages do not contain the URL of a webhook, which may be a secret.
func TestWebhookIsSecret(t *testing.T) {
	w := watched(t, t.TempDir(), clocktest.NewFake(begin), true, 0, "http://127.0.0.1:1/")
	defer w.end()
	ended, end := context.WithCancel(t.Context())
	end()
	w.queue(&Change{ID: "x"})
	for _, to := range []string{"http://127.0.0.1:1/services/secret", "http://127.0.0.1:1/%secret"} {
		out := w.NewOutputs()
		out.retry = time.Millisecond
		require.NoError(t, out.Webhook(to, nil))
		w.queue(&Change{ID: to})
		err := out.Run(ended, w.o.Log)
		require.ErrorContains(t, err, "wait for the webhook")
		require.NotContains(t, err.Error(), "/services/secret")
		require.NotContains(t, err.Error(), "127.0.0.1:1/")
	}
}

// A webhook that fails gets further tries in the end, but hardly any if the user is waiting.
func TestWebhookInTheEnd(t *testing.T) {
	for _, tc := range []struct {
		cause error
		tries int32
	}{{nil, finalTries}, {errors.New("a disk"), finalTries}, {&cli.Error{Code: cli.CodeInterrupted}, 1}, {job.ErrForced, 0}} {
		t.Run(fmt.Sprint(tc.tries), func(t *testing.T) {
			var tries atomic.Int32
			hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				tries.Add(1)
				w.WriteHeader(http.StatusBadGateway)
			}))
			defer hook.Close()
			w := watched(t, t.TempDir(), clocktest.NewFake(begin), true, 0, "http://127.0.0.1:1/")
			defer w.end()
			require.NoError(t, w.out.Webhook(hook.URL, nil))
			w.queue(&Change{ID: "x"})
			ended, end := context.WithCancelCause(t.Context())
			end(tc.cause)
			require.ErrorContains(t, w.out.Run(ended, w.o.Log), "1 change wait for the webhook, and the next run sends them")
			require.Equal(t, tc.tries, tries.Load())
			require.Len(t, w.told(), 1, "a file has it in any case")
		})
	}
}

// A failed output ends the watch before the next request.
func TestOutputFails(t *testing.T) {
	s := newSite(t, map[string]answer{"/": text("Home")})
	w := watched(t, t.TempDir(), clocktest.NewFake(begin), true, 0, s.URL)
	defer w.end()
	full := errors.New("the disk is full")
	w.mu.Lock()
	require.Equal(t, full, w.fail(full))
	require.Error(t, w.fail(errors.New("another")))
	w.mu.Unlock()
	<-w.Failed()
	_, _, err := w.Round(t.Context(), true, func(ctx context.Context, _ *crawl.Crawler, run func(context.Context) error) error { return run(ctx) })
	require.ErrorIs(t, err, full)
	require.Equal(t, cli.CodeIO, cli.CodeOf(err))
	require.Empty(t, s.requests())
}

// Three changes as a state has them, WATCH being its id.
const one, two, three = `{"id":"WATCH-1"}` + "\n", `{"id":"WATCH-2"}` + "\n", `{"id":"WATCH-3"}` + "\n"

// watchedAfter runs a watch whose file has the change one and then what was added to it, so that it adds the changes two
// and three where they are missing. It returns the watch, what puts its id into a text, and what adds changes to its state.
func watchedAfter(t *testing.T, added string) (w *tried, of func(string) string, add func(lines ...string)) {
	t.Helper()
	dir, clk := t.TempDir(), clocktest.NewFake(begin)
	ended, end := context.WithCancel(t.Context())
	end()
	w = watched(t, dir, clk, true, 0, "http://127.0.0.1:1/")
	of = func(text string) string { return strings.ReplaceAll(text, "WATCH", w.id) }
	add = func(lines ...string) {
		for _, line := range lines {
			require.NoError(t, w.store.db.Each(`INSERT INTO changes (change) VALUES (?)`, nil, strings.TrimSpace(of(line))))
		}
	}
	add(one)
	require.NoError(t, w.out.Run(ended, w.o.Log))
	add(two, three)
	w.end()
	f, err := os.OpenFile(w.file, os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteString(of(added))
	require.NoError(t, errors.Join(err, f.Close()))
	w = watched(t, dir, clk, true, 0)
	require.NoError(t, w.out.Run(ended, w.o.Log))
	return w, of, add
}
