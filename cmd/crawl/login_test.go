//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/internal/lab/redistest"
)

func loginFile(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "login.yml")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
	return file
}

func memberRules(login string) []string {
	return append(fast, "--login", login, "--item", "css:.quote", "--field", "text=css:.text", "--field", "author=css:.author",
		"--field", "tags:all=css:.tag", "--field", "more:url=css:span a + a")
}

// Sessions of three pages end again and again. The items behind the login are complete all the same, and no link logs
// the crawl out.
func TestItemsBehindALogin(t *testing.T) {
	t.Setenv("SHOP_PASSWORD", secretPassword)
	site := newMembers(3, 48, "ann", secretPassword)
	site.Lasts = 3
	url, file := serve(t, site), filepath.Join(t.TempDir(), "quotes.csv")
	login := loginFile(t, "page: "+url+"/login\nuser: ann\npassword: ${SHOP_PASSWORD}\nsuccess: css:a[href='/logout']\n")
	_, stderr := crawls(t, 0, append(memberRules(login), url, "-o", file)...)
	rows := tableOf(t, file, site.Rows[0])
	sameRows(t, site.Rows, rows, "text", "author", "tags")
	logins, left := site.Counts()
	require.GreaterOrEqual(t, logins, 4)
	require.Zero(t, left)
	require.NotContains(t, stderr, secretPassword)
}

func TestLoginsThatFail(t *testing.T) {
	t.Setenv("SHOP_PASSWORD", "wrong")
	site := newMembers(3, 8, "ann", secretPassword)
	url := serve(t, site)
	for text, want := range map[string]string{
		"user: ann\npassword: ${SHOP_PASSWORD}\nsuccess: css:a[href='/logout']\n":                             "css:a[href='/logout'] does not hold at " + url + "/login",
		"user: ann\npassword: ${NOBODY_SET_THIS}\nsuccess: css:a\n":                                           "NOBODY_SET_THIS",
		"user: ann\npassword: plain\nsuccess: css:a\n":                                                        "may be read by others: 'chmod 600",
		"user: ann\npassword: ${SHOP_PASSWORD}\n":                                                             "success is missing",
		"fields: {name: '${SHOP_PASSWORD}'}\nsuccess: css:a\n":                                                `the form has no field "name"; it has csrf_token, username, password, remember, login, forgot`,
		"user: ann\npassword: ${SHOP_PASSWORD}\nform: css:#search\nsuccess: css:a\n":                          "user and password have no place in the form",
		"user: ann\npassword: ${SHOP_PASSWORD}\nsuccess: title\npages: 1\n":                                   "is no part of a login",
		"user: ann\npassword: ${SHOP_PASSWORD}\npress: 'css:[name=forgot]'\nsuccess: css:a[href='/logout']\n": "does not hold",
	} {
		t.Run(want, func(t *testing.T) {
			login := loginFile(t, "page: "+url+"/login\n"+text)
			out, stderr := crawls(t, 2, append(slices.Clone(fast), "--login", login, url)...)
			require.NotContains(t, stderr, "internal error")
			require.Contains(t, stderr, want)
			require.NotContains(t, stderr, "wrong\"")
			require.NotContains(t, out, "members")
		})
	}
}

// A login file that is refused costs no output: the mended command finds nothing in its way. Nor does a login that the
// site refused, before a page was fetched.
func TestRefusedLoginsLeaveNoOutput(t *testing.T) {
	t.Setenv("SHOP_PASSWORD", secretPassword)
	site := newMembers(3, 8, "ann", secretPassword)
	url := serve(t, site)
	good := "page: " + url + "/login\nuser: ann\npassword: ${SHOP_PASSWORD}\nsuccess: css:a[href='/logout']\n"
	for _, name := range []string{"quotes.csv", "quotes/"} {
		out := filepath.Join(t.TempDir(), name)
		if name == "quotes/" {
			out += "/"
		}
		args := append(slices.Clone(fast), "--no-sitemaps", url, "-o", out, "--login")
		crawls(t, 3, append(args, filepath.Join(t.TempDir(), "none.yml"))...)
		crawls(t, 2, append(args, loginFile(t, strings.Replace(good, "success", "lost", 1)))...)
		if name != "quotes/" { // of which the state is kept, for crawl resume
			_, stderr := crawls(t, 2, append(args, loginFile(t, strings.Replace(good, "user: ann", "user: bob", 1)))...)
			require.Contains(t, stderr, "begin anew with --overwrite")
		}
		crawls(t, 0, append(args, loginFile(t, good))...)
	}
}

// Nothing that a crawl writes contains its credentials or a cookie: the state, archives, records, traces, logs of every
// level, and what it sends by HTTP. A crawl that is resumed uses its session.
func TestSecretsAreNowhere(t *testing.T) {
	t.Setenv("SHOP_PASSWORD", secretPassword)
	site := newMembers(3, 48, "ann", secretPassword)
	var seen sync.Mutex
	told := map[string][]byte{} // sent by the console, while it crawls, and to the collector of traces
	listen := freePort(t)
	address, dir := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/members/") {
			for _, path := range []string{"/", "/api/snapshot", "/api/controls", "/metrics", "/hosts/" + r.Host, "/api/hosts/" + r.Host} {
				if resp, err := http.Get("http://127.0.0.1:" + listen + path); err == nil {
					body, _ := io.ReadAll(resp.Body)
					resp.Body.Close()
					seen.Lock()
					told["console "+path] = append(told["console "+path], body...)
					seen.Unlock()
				}
			}
		}
		site.ServeHTTP(w, r)
	})), t.TempDir()
	collector := serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body := io.Reader(r.Body)
		if r.Header.Get("Content-Encoding") == "gzip" {
			body, _ = gzip.NewReader(r.Body)
		}
		text, _ := io.ReadAll(body)
		seen.Lock()
		defer seen.Unlock()
		told["traces"] = append(told["traces"], text...)
	}))
	login := loginFile(t, "page: "+address+"/login\nuser: ann\npassword: ${SHOP_PASSWORD}\nsuccess: css:a[href='/logout']\n")
	args := append(memberRules(login), address, "-v", "--set", "log.format=json", "-o", dir+"/out/", "--warc", dir+"/archive", "--stats", dir+"/stats.jsonl",
		"--set", "output.events="+dir+"/events.jsonl", "--record", "body", "--max-pages", "4", "--listen", listen, "--set", "traces.endpoint="+collector, "--auth", "other.example=user:"+"${SHOP_PASSWORD}")
	_, first := crawls(t, 0, args...)
	logins, _ := site.Counts()
	require.Equal(t, 1, logins)
	_, second := crawls(t, 0, "resume", dir+"/out", "-v", "--max-pages", "100", "--progress", "none")
	logins, _ = site.Counts()
	require.Equal(t, 1, logins, "the session is kept")
	sameRows(t, site.Rows, linesOf(t, dir+"/out/item.jsonl"), "text", "author")
	explained, _ := crawlsAny(t, "explain", address+"/members/2", "--state", dir+"/out", "--offline")
	report, _ := crawlsAny(t, "report", dir+"/out")
	settings, _ := crawlsAny(t, "config", "--login", login, "--show")

	secrets := []string{secretPassword, url.QueryEscape(secretPassword), url.PathEscape(secretPassword), base64.StdEncoding.EncodeToString([]byte(secretPassword))}
	secrets = append(secrets, site.Sessions()...)
	require.Greater(t, len(secrets), 4)
	clean := func(name string, data []byte) {
		for _, s := range secrets {
			require.NotContains(t, string(data), s, name)
		}
	}
	for name, text := range map[string]string{"log": first, "log of resume": second, "explain": explained, "report": report, "config": settings} {
		clean(name, []byte(text))
	}
	seen.Lock()
	require.Len(t, told, 7)
	for name, text := range told {
		clean(name, text)
	}
	require.Contains(t, string(told["traces"]), "members")
	seen.Unlock()
	lookAtFiles(t, dir, clean)
}

// lookAtFiles calls look for each file below a directory, with archives unpacked. It also checks who may read the state
// in out.
func lookAtFiles(t *testing.T, dir string, look func(name string, data []byte)) {
	t.Helper()
	files := 0
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		files++
		data := readFile(t, path)
		look(path, data)
		if strings.HasSuffix(path, ".gz") {
			z, err := gzip.NewReader(bytes.NewReader(data))
			require.NoError(t, err)
			var plain bytes.Buffer
			_, err = plain.ReadFrom(z)
			require.NoError(t, err)
			require.Contains(t, plain.String(), "WARC/1")
			look(path, plain.Bytes())
		}
		if filepath.Dir(path) == dir+"/out" && !strings.HasSuffix(path, ".jsonl") {
			info, err := d.Info()
			require.NoError(t, err)
			require.Zero(t, info.Mode().Perm()&0o077, "%s is for its owner alone", path)
		}
		return nil
	}))
	require.Greater(t, files, 5)
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	return port
}

func linesOf(t *testing.T, path string) (rows []practiceRow) {
	t.Helper()
	data := readFile(t, path)
	for line := range strings.Lines(string(data)) {
		row := practiceRow{}
		require.NoError(t, json.Unmarshal([]byte(line), &row))
		rows = append(rows, row)
	}
	return rows
}

// What a fleet has in Redis, at any page of a crawl behind a login and at its end, contains neither the credentials nor
// a cookie.
func TestFleetStoreHasNoLogin(t *testing.T) {
	t.Setenv("SHOP_PASSWORD", secretPassword)
	server := redistest.Redis.Start(t, "--rdbcompression", "no") // else DUMP could hide a text
	store := redistest.Client(t, server.Addr)
	defer store.Close()
	var mu sync.Mutex
	var all strings.Builder // keys and values
	dump := func() {
		ctx := context.Background()
		keys, err := store.Do(ctx, store.B().Keys().Pattern("*").Build()).AsStrSlice()
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			t.Error(err)
		}
		for _, key := range keys {
			value, _ := store.Do(ctx, store.B().Dump().Key(key).Build()).ToString() // empty if the key is gone by now
			all.WriteString(key + "\n" + value + "\n")
		}
	}
	site := newMembers(3, 96, "ann", secretPassword)
	site.Lasts = 4
	address, dir := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/members") || r.URL.Path == "/login" {
			dump()
		}
		site.ServeHTTP(w, r)
	})), t.TempDir()
	login := loginFile(t, "page: "+address+"/login\nuser: ann\npassword: ${SHOP_PASSWORD}\nsuccess: css:a[href='/logout']\n")
	args := append(memberRules(login), address, "--redis", "redis://"+server.Addr, "--job", "members")
	var processes sync.WaitGroup
	for _, name := range []string{"a", "b"} {
		processes.Go(func() {
			var said strings.Builder
			mine := append(slices.Clip(args), "--set", "fleet.worker="+name, "-o", filepath.Join(dir, name)+"/")
			if code := run(t.Context(), mine, cli.Streams{In: strings.NewReader(""), Out: &said, Err: &said}); code != 0 {
				t.Errorf("%s ended with %d: %s", name, code, &said)
			}
		})
	}
	processes.Wait()
	dump()
	files, err := filepath.Glob(filepath.Join(dir, "*", "item*.jsonl"))
	require.NoError(t, err)
	var rows []practiceRow
	for _, file := range files {
		rows = append(rows, linesOf(t, file)...)
	}
	sameRows(t, site.Rows, rows, "text", "author")
	text := all.String()
	require.Contains(t, text, "/members/2", "the store was read")
	secrets := append(site.Sessions(), secretPassword, url.QueryEscape(secretPassword), url.PathEscape(secretPassword), base64.StdEncoding.EncodeToString([]byte(secretPassword)))
	require.Greater(t, len(secrets), 6)
	for _, s := range secrets {
		require.NotContains(t, text, s)
	}
}
