// Package doctor is `crawl doctor`: it looks at what a crawl needs on this machine, and at the sites that are named, and
// says of each how it is and what to do. It looks at a site by a crawl of one page (site.go), so that whatever would keep
// a crawl from it keeps the doctor from it too.
package doctor

import (
	"cmp"
	"context"
	"crypto/x509"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/cmd/crawl/internal/job"
	"github.com/treadlight/crawl/internal/config"
	"github.com/treadlight/crawl/internal/fetch"
	"github.com/treadlight/crawl/internal/records/sink"
	"github.com/treadlight/crawl/internal/render"
)

// State says how a thing is that was looked at.
type State string

// The states. Only a problem keeps a crawl from what its settings ask for.
const (
	OK      State = "ok"
	Note    State = "note"
	Problem State = "problem"
)

// Finding is what was found of one thing.
type Finding struct {
	About  string `json:"about"`
	State  State  `json:"state"`
	Text   string `json:"text"`
	Advice string `json:"advice,omitempty"` // what to do; empty means nothing
}

// Config says what to look at.
type Config struct {
	URLs     []string
	Settings *config.Config
	Options  crawl.Options // of the same settings
	Term     *cli.Terminal
	Tell     func(Finding) error // called with each finding as it is made
}

// Run looks at this machine, and then at each site, and returns how many problems it found. The error is that of Tell,
// or that of a crawl that could not begin.
func Run(ctx context.Context, cfg Config) (problems int, err error) {
	tell := func(f Finding) {
		if f.State == Problem {
			problems++
		}
		if err == nil {
			err = cfg.Tell(f)
		}
	}
	tell(Finding{About: "program", State: OK, Text: strings.TrimPrefix(cli.VersionText(), "crawl ")})
	tell(openFiles(cfg.Settings.Concurrency, fetch.OpenFiles()))
	for _, dir := range directories(cfg.Settings) {
		tell(disk(dir))
	}
	tell(certificates(x509.SystemCertPool()))
	tell(proxy(cfg.Settings.Access.Proxy, os.LookupEnv))
	tell(browser(ctx, &cfg.Settings.Render))
	for _, at := range cfg.URLs {
		if err == nil {
			err = cfg.site(ctx, at, tell)
		}
	}
	return problems, err
}

// perRequest is how many files a request in flight may need, and spare how many the rest of the process needs.
const perRequest, spare = 2, 64

func openFiles(concurrency, limit int) Finding {
	f := Finding{About: "open files", State: OK, Text: fmt.Sprintf("%s may be open, enough for %d requests at a time", cli.Count(int64(limit)), concurrency)}
	switch need := perRequest*concurrency + spare; {
	case limit == 0:
		f.Text = "this system has no limit that could be read"
	case limit < need:
		f.State, f.Text = Note, fmt.Sprintf("%d may be open, and %d requests at a time need up to %d: a crawl makes fewer at a time", limit, concurrency, need)
		f.Advice = fmt.Sprintf("ulimit -n %d, or LimitNOFILE= in a systemd unit", max(4096, need))
	}
	return f
}

// directories returns the directories that a crawl with these settings writes to, each once, and the working directory
// if it has none.
func directories(s *config.Config) (dirs []string) {
	seen := map[string]bool{}
	for _, path := range []string{s.Output.Path, s.State.Dir, s.WARC.Dir, s.Render.Screenshot} {
		if path == "" || path == sink.Stdout || path == os.DevNull {
			continue
		}
		if path == s.Output.Path && !strings.HasSuffix(path, string(filepath.Separator)) {
			path = filepath.Dir(path)
		}
		// What is not there yet is made by the crawl, in the nearest directory above that is.
		for path = filepath.Clean(path); ; path = filepath.Dir(path) {
			if _, err := os.Stat(path); err == nil || path == filepath.Dir(path) {
				break
			}
		}
		if !seen[path] {
			seen[path] = true
			dirs = append(dirs, path)
		}
	}
	if dirs == nil {
		dirs = []string{"."}
	}
	return dirs
}

// littleRoom is how many free bytes are few: a page takes some ten kilobytes in records and state.
const littleRoom = 1 << 30

func disk(dir string) Finding {
	f := Finding{About: "disk", State: OK}
	name := dir
	if abs, err := filepath.Abs(dir); err == nil {
		name = abs
	}
	probe, err := os.CreateTemp(dir, ".crawl-doctor-*")
	if err == nil {
		_, err = probe.WriteString("crawl doctor removes this file at once\n")
		err = cmp.Or(err, probe.Close(), os.Remove(probe.Name()))
	}
	free, known := freeBytes(dir)
	switch {
	case err != nil:
		f.State, f.Text, f.Advice = Problem, fmt.Sprintf("nothing can be written to %s: %v", name, cli.Cause(err)), "name another directory with --output, or change its permissions"
		if cli.DiskFull(err) {
			f.Advice = "free some room there, or name another directory with --output"
		}
	case !known:
		f.Text = name + " can be written to"
	default:
		f.Text = fmt.Sprintf("%s can be written to, %s are free", name, cli.Size(free))
		if free < littleRoom {
			f.State, f.Advice = Note, "about 10 KiB a page are needed; a full disk ends a crawl, which can then be resumed"
		}
	}
	return f
}

func certificates(pool *x509.CertPool, err error) Finding {
	switch {
	case err != nil:
		return Finding{"certificates", Problem, fmt.Sprintf("those of this system cannot be read: %v", err), "install ca-certificates, or name a file with access.ca_file"}
	case pool.Equal(x509.NewCertPool()):
		return Finding{"certificates", Problem, "this system trusts no authority, so no https URL can be read", "install ca-certificates, or name a file with access.ca_file"}
	}
	return Finding{About: "certificates", State: OK, Text: "the authorities that this system trusts were read"}
}

func proxy(setting string, lookup func(string) (string, bool)) Finding {
	named := job.ProxyVariable(lookup)
	f := Finding{About: "proxy", State: OK, Text: "none"}
	switch {
	case setting == "" && named != "":
		f.State, f.Text, f.Advice = Note, "none is used, although the variable "+named+" names one", "--proxy env uses it"
	case setting == config.ProxyEnv && named == "":
		f.State, f.Text, f.Advice = Note, "--proxy env, but no variable names one", "set HTTPS_PROXY, or leave --proxy out"
	case setting == config.ProxyEnv:
		f.Text = "that of the variable " + named
	case setting != "" && setting != config.ProxyDirect:
		f.Text = "that of the settings"
		if u, err := url.Parse(setting); err == nil && u.Host != "" {
			f.Text = u.Scheme + "://" + u.Host
		}
	}
	return f
}

// browserTime bounds the start of a browser that only prints its version.
const browserTime = 20 * time.Second

func browser(ctx context.Context, s *config.Render) Finding {
	f := Finding{About: "browser", State: OK}
	if strings.Contains(s.Browser, "://") {
		f.Text = "one that runs elsewhere, by --browser: it is asked for at the first page to render"
		return f
	}
	wanted := s.Mode != "" && s.Mode != "never"
	path, err := render.Find(s.Browser)
	if err != nil {
		f.State, f.Text = Problem, err.Error()
		if !wanted {
			f.State, f.Text, f.Advice = Note, "there is no Chromium; only --render needs one", render.Install()
		}
		return f
	}
	ctx, cancel := context.WithTimeout(ctx, browserTime)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, "--version").Output()
	if err = cmp.Or(ctx.Err(), err); err != nil {
		f.State, f.Text, f.Advice = Problem, fmt.Sprintf("%s does not start: %v", path, err), "run "+cli.ShellWord(path)+" --version to see why"
		if !wanted {
			f.State = Note
		}
		return f
	}
	f.Text = fmt.Sprintf("%s at %s", cli.OneLine(cli.Clean(strings.TrimSpace(string(out)))), path)
	return f
}

// Write prints a finding in one or two lines.
func (f Finding) Write(w io.Writer) error {
	text := fmt.Sprintf("%-8s %-13s %s\n", f.State, f.About, cli.OneLine(cli.Clean(f.Text)))
	if f.Advice != "" {
		text += fmt.Sprintf("%-8s %-13s %s\n", "", "", "→ "+cli.OneLine(cli.Clean(f.Advice)))
	}
	_, err := io.WriteString(w, text)
	return err
}
