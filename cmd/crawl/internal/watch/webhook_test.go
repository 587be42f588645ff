package watch

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/clock/clocktest"
	"github.com/treadlight/crawl/internal/fetch/post"
)

// Signatures are those of Standard Webhooks; this one was made by openssl dgst -sha256 -hmac.
func TestSign(t *testing.T) {
	key, err := Secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "")
	require.NoError(t, err)
	require.Equal(t, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=", sign(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", `{"test": 2432232314}`))
}

func TestSecret(t *testing.T) {
	const good = "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	file := filepath.Join(t.TempDir(), "secret")
	for _, tc := range []struct{ name, text, file, says string }{
		{"none", "", "", ""},
		{"in the environment", good, "", ""},
		{"in a file", "", "whsec_" + good + "\n", ""},
		{"a file is stronger", "short", good, ""},
		{"an empty file", good, "\n", "--webhook-secret"},
		{"no base64", "hush! hush! hush! hush! hush! hush!", "", "openssl rand"},
		{"too short", "c2hvcnQ=", "", "24 to 64 bytes"},
		{"too long", strings.Repeat("A", 88), "", "24 to 64 bytes"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			from := ""
			if tc.file != "" {
				require.NoError(t, os.WriteFile(file, []byte(tc.file), 0o600))
				from = file
			}
			key, err := Secret(tc.text, from)
			if tc.says != "" {
				require.ErrorContains(t, err, tc.says)
				require.NotContains(t, err.Error(), "hush")
				return
			}
			require.NoError(t, err)
			require.Equal(t, tc.name != "none", len(key) == 24)
		})
	}
	_, err := Secret("", filepath.Join(t.TempDir(), "none"))
	require.Error(t, err)
}

// A repeated delivery has the same id and body, and a signature of its own time. The next process respects Retry-After
// too, and no file contains the secret.
func TestDelivery(t *testing.T) {
	key, err := Secret("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "")
	require.NoError(t, err)
	var ids, bodies []string
	retryAfter := ""
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		id, at := r.Header.Get("Webhook-Id"), r.Header.Get("Webhook-Timestamp")
		if r.Header.Get("Webhook-Signature") != sign(key, id, at, string(body)) {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		ids, bodies = append(ids, id), append(bodies, string(body))
		if retryAfter != "" {
			w.Header().Set("Retry-After", retryAfter)
		}
		if len(ids) <= 4 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer hook.Close()
	dir := t.TempDir()
	run := func() error {
		w := watched(t, dir, clocktest.NewFake(begin), true, 0, "http://127.0.0.1:1/")
		defer w.end()
		require.NoError(t, w.Webhook(hook.URL, key))
		if len(ids) == 0 {
			w.queue(&Change{ID: "one"})
		}
		return w.sent()
	}
	require.ErrorContains(t, run(), "it answers 503")
	require.Len(t, ids, 3)
	retryAfter = "3600"
	require.ErrorContains(t, run(), "again in 1h0m0s")
	require.Len(t, ids, 3+1, "it was asked once")
	require.ErrorContains(t, run(), "left alone")
	require.Len(t, ids, 3+1, "and not again")
	for i := range ids {
		require.Equal(t, "one", ids[i])
		require.Equal(t, bodies[0], bodies[i])
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	require.NoError(t, err)
	for _, name := range files {
		data, err := os.ReadFile(name)
		require.NoError(t, err)
		require.NotContains(t, string(data), "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", name)
		require.NotContains(t, string(data), string(key), name)
	}
}

// A webhook that asks to be left alone does not hide that the database has failed: the watch ends.
func TestDatabaseFailsAtAWebhook(t *testing.T) {
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "3600")
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer hook.Close()
	w := watched(t, t.TempDir(), clocktest.NewFake(begin), true, 0, "http://127.0.0.1:1/")
	defer w.end()
	require.NoError(t, w.Webhook(hook.URL, nil))
	w.queue(&Change{ID: "one"})
	require.NoError(t, w.store.db.Exec(`DROP TABLE sinks`))
	refused, err := w.Send(t.Context(), 1)
	require.Nil(t, refused)
	require.ErrorContains(t, err, "sinks")
	var webhook *post.Refusal
	require.NotErrorAs(t, err, &webhook)
}
