package doctor

import (
	"bytes"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/internal/config"
)

func TestMachine(t *testing.T) {
	none := func(string) (string, bool) { return "", false }
	named := func(name string) (string, bool) {
		return map[string]string{"https_proxy": "http://u:secret@p:1"}[name], true
	}
	empty := x509.NewCertPool()
	for _, tc := range []struct {
		name   string
		found  Finding
		state  State
		says   string
		advice string
	}{
		{"files", openFiles(64, 20000), OK, "20,000 may be open", ""},
		{"few files", openFiles(512, 256), Note, "256 may be open", "ulimit -n 4096"},
		{"no limit", openFiles(64, 0), OK, "no limit", ""},
		{"no pool", certificates(nil, errors.New("odd")), Problem, "odd", "ca-certificates"},
		{"empty pool", certificates(empty, nil), Problem, "no https", "ca-certificates"},
		{"no proxy", proxy("", none), OK, "none", ""},
		{"unused proxy", proxy("", named), Note, "https_proxy", "--proxy env"},
		{"proxy of the environment", proxy("env", named), OK, "https_proxy", ""},
		{"none in the environment", proxy("env", none), Note, "no variable", "HTTPS_PROXY"},
		{"proxy", proxy("http://u:secret@proxy.test:3128", none), OK, "http://proxy.test:3128", ""},
		{"disk", disk(t.TempDir()), OK, "can be written to", ""},
		{"no disk", disk(filepath.Join(t.TempDir(), "gone")), Problem, "nothing can be written", "--output"},
		{"browser elsewhere", browser(t.Context(), &config.Render{Browser: "ws://u:secret@b:1"}), OK, "elsewhere", ""},
		{"no browser", browser(t.Context(), &config.Render{Browser: "/nowhere", Mode: "auto"}), Problem, "/nowhere", ""},
		{"no browser wanted", browser(t.Context(), &config.Render{Browser: "/nowhere"}), Note, "only --render", ""},
	} {
		require.Equal(t, tc.state, tc.found.State, "%s: %+v", tc.name, tc.found)
		require.Contains(t, tc.found.Text, tc.says, tc.name)
		require.Contains(t, tc.found.Advice, tc.advice, tc.name)
		text, err := json.Marshal(tc.found)
		require.NoError(t, err)
		require.NotContains(t, string(text), "secret", tc.name)
	}
}

// Each directory once, the nearest that exists for what a crawl would make.
func TestDirectories(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.Mkdir("there", 0o700))
	for want, c := range map[string]config.Config{
		".":       {},
		"there":   {Output: config.Output{Path: "there/new/pages.jsonl"}},
		"there .": {Output: config.Output{Path: "there/"}, State: config.State{Dir: "state"}, WARC: config.WARC{Dir: "there"}},
		"/":       {Output: config.Output{Path: "/nothing-here/deep/"}},
	} {
		require.Equal(t, strings.Fields(want), directories(&c), "%+v", c)
	}
}

func TestSite(t *testing.T) {
	host := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		switch r.URL.Path {
		case "/robots.txt":
			_, _ = io.WriteString(w, "User-agent: *\nDisallow: /private\n")
		case "/moved":
			http.Redirect(w, r, "/", http.StatusFound)
		case "/area":
			http.Redirect(w, r, "/login", http.StatusFound)
		case "/login":
			_, _ = io.WriteString(w, `<form><input type="password"></form>`)
		case "/app":
			_, _ = io.WriteString(w, `<div id="root"></div><script src="x.js"></script>`)
		case "/away":
			http.Redirect(w, r, "/private/x", http.StatusFound)
		case "/links":
			_, _ = io.WriteString(w, "<p>"+strings.Repeat("text ", 100)+"<a href=/private/2>2</a>")
		case "/limited":
			w.Header().Set("Retry-After", "3")
			w.WriteHeader(http.StatusTooManyRequests)
		case "/refused":
			w.WriteHeader(http.StatusForbidden)
		case "/skewed":
			w.Header().Set("Date", time.Now().Add(time.Hour).UTC().Format(http.TimeFormat))
		}
	}))
	defer host.Close()
	for path, want := range map[string]string{
		"/":        "robots.txt ok, network ok, page ok",
		"/moved":   "robots.txt ok, network ok, page ok, page ok",
		"/area":    "robots.txt ok, network ok, page ok, page ok, page note: --login FILE",
		"/app":     "robots.txt ok, network ok, page ok, page note: --render auto",
		"/away":    "robots.txt ok, network ok, page ok, page problem",
		"/links":   "robots.txt ok, network ok, page ok",
		"/limited": "robots.txt ok, page note",
		"/refused": "robots.txt ok, network ok, page problem",
		"/private": "robots.txt ok, page problem",
		"/skewed":  "robots.txt ok, network ok, page ok, clock note",
	} {
		var found []string
		cfg := Config{Term: cli.NewTerminal(new(bytes.Buffer), nil, "none")}
		cfg.Options.Politeness.Strategy = "off"
		require.NoError(t, cfg.site(t.Context(), host.URL+path, func(f Finding) {
			line := f.About + " " + string(f.State)
			if i := strings.Index(f.Advice, "--"); i >= 0 && f.State == Note {
				line += ": " + strings.Join(strings.Fields(f.Advice[i:])[:2], " ")
			}
			found = append(found, line)
		}))
		require.Equal(t, want, strings.Join(found, ", "), path)
	}
}
