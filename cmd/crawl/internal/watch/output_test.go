package watch

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/internal/clock/clocktest"
	"github.com/treadlight/crawl/internal/fetch/post"
)

// A file keeps lines that others have appended, and has each change once even if it was written but not committed. A line
// counts as a change only if it is the whole change that the database has under that number.
func TestFileOfOthers(t *testing.T) {
	const newer, part, odd = `{"id":"WATCH-2","url":"x"}` + "\n" + `{"id":"WATCH-9"}` + "\n", `{"id":"WATCH-3","time":"00a line of others` + "\n", `{"id":"WATCH-1a line of others` + "\n"
	for name, tc := range map[string]struct{ added, want string }{
		"nothing":                        {"", one + two + three},
		"a part of a change":             {two[:5], one + two + three},
		"a change":                       {two, one + two + three},
		"a change and a part of another": {two + three[:4], one + two + three},
		"a line of others":               {"other\n", one + "other\n" + two + three},
		"a change and one of others":     {two + "other\n", one + two + "other\n" + three},
		"a line of others, not ended":    {"other", one + "other\n" + two + three},
		"many lines of others":           {strings.Repeat("other\n", 100), one + strings.Repeat("other\n", 100) + two + three},
		"a newer database":               {newer, one + newer + two + three},
		"a part, continued by others":    {part, one + part + two + three},
		"a change, then that part":       {two + part, one + two + part + three},
		"a part with another number":     {two + odd, one + two + odd + three},
	} {
		t.Run(name, func(t *testing.T) {
			w, of, add := watchedAfter(t, tc.added)
			text := must(os.ReadFile(w.file))
			require.Equal(t, of(tc.want), string(text))

			require.NoError(t, os.Truncate(w.file, 0)) // as logrotate does
			add(one)
			require.NoError(t, w.sent())
			text = must(os.ReadFile(w.file))
			require.Equal(t, of(one), string(text))
			w.end()
		})
	}
}

// Messages do not contain the URL of a webhook, which may be a secret.
func TestWebhookIsSecret(t *testing.T) {
	for _, to := range []string{"http://127.0.0.1:1/services/secret", "http://127.0.0.1:1/%secret"} {
		w := watched(t, t.TempDir(), clocktest.NewFake(begin), true, 0, "http://127.0.0.1:1/")
		require.NoError(t, w.Webhook(to, nil))
		w.queue(&Change{ID: to})
		refused, err := w.Send(t.Context(), 1)
		require.NoError(t, err)
		require.NotContains(t, refused.Error(), "/services/secret")
		require.NotContains(t, refused.Error(), "127.0.0.1:1/")
		w.end()
	}
}

// A webhook that fails gets as many tries as it is given, and hangs no longer than the context. Files have each change in
// any case.
func TestWebhookFails(t *testing.T) {
	for tries := range 4 {
		t.Run(fmt.Sprint(tries), func(t *testing.T) {
			var got atomic.Int32
			hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body) // so that the end of the request is seen
				if got.Add(1); tries == 0 {
					<-r.Context().Done()
				}
				w.WriteHeader(http.StatusBadGateway)
			}))
			defer hook.Close()
			w := watching(t, true, 0, "http://127.0.0.1:1/")
			require.NoError(t, w.Webhook(hook.URL, nil))
			w.queue(&Change{ID: "x"})
			ctx, cancel := t.Context(), func() {}
			if tries == 0 {
				ctx, cancel = context.WithTimeout(ctx, 50*time.Millisecond)
			}
			defer cancel()
			refused, err := w.Send(ctx, tries)
			require.NoError(t, err)
			require.Error(t, refused)
			require.EqualValues(t, max(1, tries), got.Load())
			require.EqualValues(t, 1, w.Waiting())
			require.Len(t, w.told(), 1)
		})
	}
}

// A feed names the site, also while it is empty, what is gone by its last title, and has the text of new pages.
func TestFeed(t *testing.T) {
	s := newSite(t, map[string]answer{"/": text("Home", "/a"), "/a": {text: "<title>About us</title><main><p>Text</main>"}})
	dir := t.TempDir()
	w := watched(t, dir, clocktest.NewFake(begin), true, 0, s.URL)
	defer w.end()
	file := filepath.Join(dir, "feed.xml")
	require.NoError(t, w.Feed(file))
	type item struct {
		Title string `xml:"title"`
		Link  string `xml:"link"`
		Text  string `xml:"description"`
	}
	type rss struct {
		Title string `xml:"channel>title"`
		Link  string `xml:"channel>link"`
		Items []item `xml:"channel>item"`
	}
	read := func() (channel rss) {
		data := must(os.ReadFile(file))
		require.NoError(t, xml.Unmarshal(data, &channel))
		require.Equal(t, "Changes of "+strings.TrimPrefix(s.URL, "http://"), channel.Title)
		require.Equal(t, s.URL+"/", channel.Link)
		return channel
	}
	require.Empty(t, read().Items)
	w.round(0)
	s.set("/a", answer{status: 404, text: "<title>Not found</title>"})
	w.round(time.Hour)
	items := read().Items
	require.Len(t, items, 1)
	require.Equal(t, "gone: About us", items[0].Title)
	require.Equal(t, s.URL+"/a", items[0].Link)
	long := strings.Repeat("A <b>long</b> story. ", 100)
	s.set("/", text("Home", "/a", "/new"))
	s.set("/new", answer{text: "<title>News</title><main><p>First &lt;words&gt;<p>" + long + "</main>"})
	w.round(time.Hour)
	items = read().Items
	require.Len(t, items, 3, "the home page has a link more")
	require.Equal(t, "gone: About us", items[2].Title, "the latest comes first")
	home := slices.IndexFunc(items, func(item item) bool { return item.Title == "changed: T" })
	require.GreaterOrEqual(t, home, 0)
	require.Contains(t, items[home].Text, "+/new")
	i := slices.IndexFunc(items, func(item item) bool { return item.Title == "added: News" })
	require.GreaterOrEqual(t, i, 0)
	require.Contains(t, items[i].Text, "News\nFirst &lt;words&gt;\nA long story.")
	require.Less(t, len(items[i].Text), 1100)
}

// A clock that was years ahead keeps neither pages nor a webhook from their turn once it is right.
func TestClockIsSetBack(t *testing.T) {
	var posted atomic.Int32
	hook := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { posted.Add(1) }))
	defer hook.Close()
	s := newSite(t, map[string]answer{"/": text("Home 0", "/bad"), "/bad": {status: 500}})
	dir, clk := t.TempDir(), clocktest.NewFake(begin.AddDate(9, 0, 0))
	w := watched(t, dir, clk, false, 0, s.URL)
	w.round(0)
	require.NoError(t, w.Webhook(hook.URL, nil))
	require.NoError(t, w.store.db.Exec(fmt.Sprintf("UPDATE sinks SET wait = %d", clk.Now().Unix())))
	w.end()
	clk = clocktest.NewFake(begin)
	w = watched(t, dir, clk, false, 0)
	defer w.end()
	require.NoError(t, w.Webhook(hook.URL, nil))
	s.set("/", text("Home 1", "/bad"))
	s.requests()
	var told []string
	for range 48 {
		_, now := w.round(time.Hour)
		told = append(told, now...)
	}
	require.Equal(t, []string{"changed / -Home 0 +Home 1"}, told)
	require.Contains(t, s.requests(), "/bad 500")
	require.EqualValues(t, 1, posted.Load())
}

// A failed disk ends the watch before the next request.
func TestDiskFails(t *testing.T) {
	s := newSite(t, map[string]answer{"/": text("Home")})
	w := watching(t, true, 0, s.URL)
	full := errors.New("the disk is full")
	w.mu.Lock()
	require.Equal(t, full, w.fail(full))
	require.Error(t, w.fail(errors.New("another")))
	w.mu.Unlock()
	_, _, err := w.Round(t.Context(), true, plainly)
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
	w = watched(t, dir, clk, true, 0, "http://127.0.0.1:1/")
	of = func(text string) string { return strings.ReplaceAll(text, "WATCH", w.id) }
	add = func(lines ...string) {
		for _, line := range lines {
			require.NoError(t, w.store.db.Each(`INSERT INTO changes (change) VALUES (?)`, nil, strings.TrimSpace(of(line))))
		}
	}
	add(one)
	require.NoError(t, w.sent())
	add(two, three)
	w.end()
	f := must(os.OpenFile(w.file, os.O_APPEND|os.O_WRONLY, 0))
	must(f.WriteString(of(added)))
	require.NoError(t, f.Close())
	w = watched(t, dir, clk, true, 0)
	require.NoError(t, w.sent())
	return w, of, add
}

// Signatures are those of Standard Webhooks; this one was made by openssl dgst -sha256 -hmac.
func TestSign(t *testing.T) {
	key := must(Secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", ""))
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
	key := must(Secret("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", ""))
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
	files := must(filepath.Glob(filepath.Join(dir, "*")))
	for _, name := range files {
		data := must(os.ReadFile(name))
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
	w := watching(t, true, 0, "http://127.0.0.1:1/")
	require.NoError(t, w.Webhook(hook.URL, nil))
	w.queue(&Change{ID: "one"})
	require.NoError(t, w.store.db.Exec(`DROP TABLE sinks`))
	refused, err := w.Send(t.Context(), 1)
	require.Nil(t, refused)
	require.ErrorContains(t, err, "sinks")
	var webhook *post.Refusal
	require.NotErrorAs(t, err, &webhook)
}
