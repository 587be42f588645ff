//go:build unix

package main

import (
	"bytes"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/lab/docpage"
)

var consoleBlock = regexp.MustCompile("(?s)```console\n(.*?)```")

// The output in the documentation of items and logins is what the commands print, line by line and in that order.
func TestPagesOfItemsAndLogins(t *testing.T) {
	members := newMembers(1, 12, "ann", secretPassword)
	for page, site := range map[string]struct {
		address string
		handler http.Handler
	}{
		"docs/how-to/items.md": {"http://127.0.0.1:8941", booksSite(1, 45)},
		"docs/how-to/login.md": {"http://127.0.0.1:8942", members},
	} {
		t.Run(page, func(t *testing.T) {
			dir, url := t.TempDir(), serve(t, site.handler)
			text := strings.ReplaceAll(docpage.Read(t, page), site.address, url)
			require.NoError(t, os.WriteFile(dir+"/login.yml", []byte("page: "+url+"/login\nuser: ann\npassword: ${SHOP_PASSWORD}\nsuccess: css:a[href='/logout']\n"), 0o644))
			blocks := consoleBlock.FindAllStringSubmatch(text, -1)
			require.NotEmpty(t, blocks)
			for _, block := range blocks {
				for _, step := range strings.Split(block[1], "$ ")[1:] {
					line, shown, _ := strings.Cut(step, "\n")
					fast := strings.Replace(line, "crawl ", "crawl --strategy off --no-robots --contact a@b.test --progress none ", 1)
					fast = strings.Replace(fast, "crawl --strategy off --no-robots --contact a@b.test --progress none try ", "crawl try --strategy off --no-robots ", 1)
					cmd := exec.CommandContext(t.Context(), "sh", "-c", fast)
					cmd.Dir, cmd.Env = dir, append(os.Environ(), "SHOP_PASSWORD="+secretPassword)
					var out bytes.Buffer
					cmd.Stdout, cmd.Stderr = &out, &out
					_ = cmd.Run() // the documentation shows failures too
					rest := strings.Join(strings.Fields(out.String()), " ")
					for want := range strings.Lines(shown) {
						want = strings.Join(strings.Fields(want), " ")
						_, after, found := strings.Cut(rest, want)
						require.True(t, found, "%s\nhas not printed %q (in that order), but\n%s", line, want, out.String())
						rest = after
					}
				}
			}
		})
	}
}
