//go:build unix

package main

import (
	"context"
	"encoding/base64"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/internal/lab/redistest"
)

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
