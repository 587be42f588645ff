package crawl

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/assembly"
	"github.com/treadlight/crawl/internal/assembly/polite"
	"github.com/treadlight/crawl/record"
)

type noExtractor struct{}

func (noExtractor) Extract(context.Context, *Document) (*Extracted, error) { return nil, nil }

type noJar struct{ http.CookieJar }

// Nothing that a program sets is lost on the way to what builds the crawl.
func TestOptionsAreConvertedWhole(t *testing.T) {
	o := Options{
		OnPage: func(context.Context, *Page) error { return nil }, OnEvent: func(Event) {}, HandlersFollow: true,
		Sinks: []record.Sink{printed{}}, Archives: []record.Sink{printed{}}, State: &State{&assembly.State{}}, Join: true, Began: time.Now(), Version: "1", Log: slog.New(slog.DiscardHandler),
		OnRequest: func(*http.Request) error { return nil }, OnResponse: func(*http.Response) error { return nil }, OnError: func(Failure) {}, OnSkip: func(Skipped) {},
		Bodies: map[string]BodyHandler{"*/*": {Handle: func(context.Context, *Page, io.Reader) error { return nil }}}, Extractors: map[string]Extractor{"a/b": noExtractor{}},
		Named: func(string) bool { return true }, Shared: &Politeness{&polite.Shared{}}, CookieJar: noJar{}, Transport: http.DefaultTransport, Panics: true,
	}
	cfg, err := o.inner()
	require.NoError(t, err)
	to := reflect.ValueOf(cfg)
	for i := range to.NumField() {
		switch name := to.Type().Field(i).Name; name {
		case "Dial", "Lookup": // for tests
		case "Read", "Unattended": // for the command, which reads files before it opens its output; programs can unblock hosts
		case "Own":
			for j := range to.Field(i).NumField() {
				require.False(t, to.Field(i).Field(j).IsZero(), "%s cannot be set", to.Field(i).Type().Field(j).Name)
			}
		default:
			require.False(t, to.Field(i).IsZero(), "%s cannot be set", name)
		}
	}
	require.Same(t, o.State.inner, cfg.Kept)
	cfg, err = new(Options).inner()
	require.NoError(t, err)
	require.Nil(t, cfg.Kept)
	require.True(t, cfg.Embedded)
	cfg.Embedded = false
	require.Equal(t, assembly.DefaultConfig(), cfg)
}

// A file of the command says to a program what it says to the command, and the environment is stronger.
func TestLoad(t *testing.T) {
	file := filepath.Join(t.TempDir(), "crawl.yaml")
	require.NoError(t, os.WriteFile(file, []byte(`
max_pages: 7
depth: 0
robots: {enabled: false}
ratelimit: {max_rps: 0.5, retry_max_attempts: 0}
hosts: [{match: a.test, min_delay: 2s}]
fetch: {contact: ops@example.org, headers: ["X: y"]}
output: {path: pages.csv, record: [text]}
log: {level: debug}
`), 0o600))
	t.Setenv("CRAWL_MAX_PAGES", "8")
	o, err := Load(file)
	require.NoError(t, err)
	require.Equal(t, Options{
		MaxPages: 8, Depth: -1,
		Politeness: PolitenessOptions{
			IgnoreRobots: true, InitialRPS: 0.5, MaxRPS: 0.5, Retries: -1,
			Hosts: []HostOptions{{Match: "a.test", InitialRPS: 0.5, MinRPS: 0.1, MaxRPS: 0.5, MinDelay: 2 * time.Second}},
		},
		Fetch:  FetchOptions{Contact: "ops@example.org", Headers: []string{"X: y"}},
		Output: OutputOptions{Record: []string{"text"}},
	}, o)
	_, err = New(o)
	require.NoError(t, err)

	_, err = Load(file + ".gone")
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.NoError(t, os.WriteFile(file, []byte("ratelimit: {max_rps: no}"), 0o600))
	_, err = Load(file)
	require.ErrorContains(t, err, "ratelimit.max_rps: ")
	require.ErrorContains(t, err, "crawl.yaml:1")
}

// Whoever finds an error, it names the field of a program, and is what it was.
func TestErrorsNameFields(t *testing.T) {
	for want, o := range map[string]Options{
		"Options.Politeness.MaxRPS: 10000000 is above": {Politeness: PolitenessOptions{MaxRPS: 1e7}},
		"Options.Access.Netrc: ":                       {Access: AccessOptions{Netrc: filepath.Join(t.TempDir(), "none")}},
		"Options.Access.CAFile":                        {Access: AccessOptions{CAFile: filepath.Join(t.TempDir(), "none")}},
	} {
		_, err := New(o)
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "--")
	}
	_, err := New(Options{Access: AccessOptions{Netrc: filepath.Join(t.TempDir(), "none")}})
	require.ErrorIs(t, err, fs.ErrNotExist)
	own := errors.New("the sink at max_pages/state.dir: says --overwrite")
	require.Equal(t, own, inProgram(own), "what is the program's own is left alone")
	dir := filepath.Join(t.TempDir(), "state.dir --overwrite")
	_, err = OpenState(StateConfig{Dir: dir})
	require.ErrorContains(t, err, dir+" holds no crawl: name the directory of Options.StateDir")
	archive := filepath.Join(t.TempDir(), "a.warc")
	require.NoError(t, os.WriteFile(archive, []byte("x"), 0o600))
	_, err = OpenArchive(ArchiveConfig{Dir: archive, File: true})
	require.ErrorContains(t, err, "add Options.Output.Overwrite to replace it")
	var lines strings.Builder
	_, err = New(Options{Log: slog.New(slog.NewTextHandler(&lines, nil))})
	require.NoError(t, err)
	require.Contains(t, lines.String(), "Options.Fetch.Contact is empty")
}

// A crawl that runs takes over what may change, and says of each change which field it is.
func TestReload(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	defer server.Close()
	o := Options{Politeness: PolitenessOptions{IgnoreRobots: true}, Scope: ScopeOptions{IgnoreSitemaps: true}}
	c, err := New(o)
	require.NoError(t, err)
	o.Politeness.MaxRPS, o.Concurrency = 5, 7
	for _, err := range c.Crawl(t.Context(), server.URL) {
		require.NoError(t, err)
		applied, refused, err := c.Reload(o)
		require.NoError(t, err)
		require.Equal(t, []string{"Options.Politeness.MaxRPS: 10 → 5"}, applied)
		require.Equal(t, []string{"Options.Concurrency: 64 → 7"}, refused)
		_, _, err = c.Reload(Options{Concurrency: -1})
		require.ErrorContains(t, err, "Options.Concurrency: -1 is below 1")
	}
}
