package crawl_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/internal/config"
	"github.com/treadlight/crawl/resilience/binder"
)

// The Go code of the README, in its order. It is compiled here, and the test below says what
// of it is not as it is there.
var readmeCode = []any{
	func(ctx context.Context) error {
		c, err := crawl.New(crawl.DefaultConfig())
		if err != nil {
			return err
		}
		for page, err := range c.Pages(ctx, "https://example.com/") {
			if err != nil {
				return err
			}
			fmt.Println(page.URL, page.Title, len(page.Body))
		}
		return nil
	},
	func() error {
		client, err := crawl.Client(crawl.ClientConfig{UserAgent: "feedreader/1.0 (+mailto:ops@example.org)"})
		if err != nil {
			return err
		}
		defer client.Close()
		res, err := client.Get("https://example.com/feed.xml") // waits for its turn at this host
		if err != nil {
			return err
		}
		defer res.Body.Close()
		return nil
	},
	func(mux *http.ServeMux) error {
		door, err := crawl.Admit(crawl.AdmitConfig{Store: "redis://127.0.0.1:6379"}) // or "sqlite:limits.db", or memory
		if err != nil {
			return err
		}
		defer door.Close()
		return http.ListenAndServe(":8080", door.Handler(mux)) //nolint:gosec // as short as can be
	},
}

// blocks are those of a language in a text.
func blocks(text, language string) (all []string) {
	fence := regexp.MustCompile("(?ms)^```" + language + "\n(.*?)^```$")
	for _, m := range fence.FindAllStringSubmatch(text, -1) {
		all = append(all, m[1])
	}
	return all
}

func TestReadmesCodeCompiles(t *testing.T) {
	manual, err := os.ReadFile("README.md")
	require.NoError(t, err)
	here, err := os.ReadFile("readme_code_test.go")
	require.NoError(t, err)
	code := strings.NewReplacer(" //nolint:gosec // as short as can be", "", "\n\t\t", "\n").Replace(string(here))
	at := 0
	found := blocks(string(manual), "go")
	require.Len(t, found, len(readmeCode))
	for _, block := range found {
		next := strings.Index(code[at:], block)
		require.GreaterOrEqual(t, next, 0, "README.md has other code, or in another order, than readmeCode:\n%s", block)
		at += next + len(block)
	}
}

// The settings and the policies that the manual shows can be had as they are.
func TestManualsSettingsLoad(t *testing.T) {
	t.Setenv("OTLP_TOKEN", "0123456789abcdef")
	for _, name := range manualFiles(t) {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		for _, block := range blocks(string(text), "yaml") {
			_, err := config.Load(config.Sources{File: "crawl.yaml", Reader: strings.NewReader(block)})
			require.NoError(t, err, "%s:\n%s", name, block)
		}
		for _, block := range blocks(string(text), "json") {
			_, err := binder.Load([]byte(block))
			require.NoError(t, err, "%s:\n%s", name, block)
		}
	}
}
