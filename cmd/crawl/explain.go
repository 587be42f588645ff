package main

import (
	"context"
	_ "embed" // texts/explain.txt
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/cmd/crawl/internal/flags"
	"github.com/treadlight/crawl/internal/assembly"
	"github.com/treadlight/crawl/internal/config"
	"github.com/treadlight/crawl/internal/frontier/disk"
	"github.com/treadlight/crawl/internal/observe/console"
	"github.com/treadlight/crawl/internal/observe/endpoint"
)

// explainCommand returns the command that answers "what would a crawl do with this URL, and why".
func explainCommand(s cli.Streams) *cobra.Command {
	x := explaining{Streams: s}
	cmd := verb("explain")
	cmd.Args = flags.SomeArgs("explain needs a URL or a host")
	f := cmd.Flags()
	f.StringArrayVar(&x.seeds, "seed", nil, "a `URL` the crawl begins from, repeatable; none = the URL explained is one")
	f.StringVar(&x.robots, "robots-file", "", "judge by this `file` and ask no host")
	f.BoolVar(&x.offline, "offline", false, "ask no host for its robots.txt")
	f.StringVar(&x.control, "control", "", "ask the crawl that listens at this `addr` about the host")
	f.BoolVar(&x.all, "all", false, "show also the steps that change nothing")
	f.BoolVar(&x.json, "json", false, "print JSON, a line for each URL")
	settings := flags.AddAll(cmd, true)
	state := cmd.Flags().Lookup("state")
	state.Hidden, state.Usage = false, "explain by the crawl that is kept in this `dir`, and tell what became of the URL there"
	flags.SetGroup(state, flags.GroupOwn)
	cmd.RunE = flags.Interruptible(func(ctx context.Context, args []string) error {
		return x.run(ctx, settings, state.Changed, args)
	})
	return cmd
}

type explaining struct {
	cli.Streams
	seeds              []string
	robots, control    string
	offline, all, json bool
	kept               *assembly.StateView // of --state; nil without the flag
}

type explained struct {
	assembly.Explanation
	Crawl *console.Host `json:"crawl,omitempty"` // nil if no crawl was asked, or if it does not know the host
	State *disk.Page    `json:"state,omitempty"` // nil without --state
}

// run explains each URL of args. If kept is true, it does so with the settings and seeds of the state that --state
// names.
func (x *explaining) run(ctx context.Context, settings *flags.Settings, kept bool, args []string) (err error) {
	loaded, err := settings.Load(x.Env)
	if err != nil {
		return err
	}
	if kept {
		if loaded, err = x.openState(loaded.Config.State.Dir, settings); err != nil {
			return err
		}
	}
	cfg := assembly.ExplainConfig{Seeds: x.seeds, Offline: x.offline}
	cfg.Settings, cfg.Version = loaded.Config, cli.Version()
	if x.robots != "" {
		if cfg.Robots, err = os.ReadFile(x.robots); err != nil {
			return cli.IO(err)
		}
	}
	all, err := assembly.Explain(ctx, cfg, args...)
	switch {
	case errors.Is(err, context.Canceled):
		return &cli.Error{Code: cli.CodeInterrupted, Err: errors.New("interrupted")}
	case err != nil:
		return flags.Wrong(err)
	}
	return x.print(ctx, all, loaded.Config.Listen.Token)
}

// openState opens the state in dir and returns its settings, over which the file and the flags given now take
// precedence. It takes the seeds of the state unless --seed gives others.
func (x *explaining) openState(dir string, settings *flags.Settings) (_ *config.Loaded, err error) {
	if x.kept, err = assembly.ViewState(dir); err != nil {
		return nil, cli.IO(err)
	}
	saved := x.kept.Settings()
	given := slices.DeleteFunc(slices.Clone(settings.Given), func(f config.FlagValue) bool {
		return f.Name == "state" || f.Name == "set" && strings.HasPrefix(f.Value, "state.dir=")
	})
	loaded, err := flags.Load(config.Sources{Saved: &saved, SavedIn: dir, File: settings.File, Flags: given})
	if err != nil {
		return nil, err
	}
	if len(x.seeds) == 0 {
		x.seeds = x.kept.Seeds()
	}
	return loaded, nil
}

// print adds what the running crawl and the state know of each URL, if they are to be asked, and writes the
// explanations. It is an error if some URLs cannot be crawled.
func (x *explaining) print(ctx context.Context, all []assembly.Explanation, token string) error {
	bad := 0
	for _, e := range all {
		p := explained{Explanation: e}
		var err error
		if e.Error != "" {
			bad++
		} else if x.control != "" {
			p.Crawl, err = askCrawl(ctx, x.control, token, p.Host)
		}
		if err == nil && e.Error == "" && x.kept != nil {
			p.State = new(disk.Page)
			*p.State, err = x.kept.Find(p.URL)
		}
		if err != nil {
			return cli.IO(err)
		}
		if err := x.write(&p); err != nil {
			return cli.Output(err)
		}
	}
	if bad > 0 {
		return cli.Usagef("%d of %d are no URLs that can be crawled", bad, len(all))
	}
	return nil
}

func (x *explaining) write(p *explained) error {
	if x.json {
		return json.NewEncoder(x.Out).Encode(p)
	}
	if !x.all {
		p.Steps = slices.DeleteFunc(slices.Clone(p.Steps), func(s assembly.ExplainStep) bool { return s.From == s.To })
	}
	_, err := io.WriteString(x.Out, explainPage.Text(p, 0))
	return err
}

//go:embed texts/explain.txt
var explainText string

var explainPage = cli.NewPage(explainText, 18, "", map[string]any{
	"ms": inMilliseconds, "utc": func(t time.Time) string { return t.UTC().Format(time.DateTime) + " UTC" },
})

// Pacing returns how fast the host may be asked, by the lowest of the ceilings.
func (p *explained) Pacing() string {
	most, why := p.Pace.MaxRPS, ""
	if gap := p.Pace.MinDelayMS; gap > 0 {
		most, why = min(most, 1000/gap), fmt.Sprintf(", at least %v between two", inMilliseconds(gap))
	}
	if gap := p.Robots.ObeyedMS; gap > 0 && 1000/gap < most {
		most, why = 1000/gap, ", by the Crawl-delay of robots.txt"
	}
	if p.Crawl != nil {
		why += ", by the settings of this command" // the running crawl may have others
	}
	return fmt.Sprintf("%s: %.4g/s to begin with, %.4g to %.4g/s, %d at a time%s", p.Pace.Strategy,
		min(p.Pace.InitialRPS, most), min(p.Pace.MinRPS, most), most, p.Pace.MaxInFlight, why)
}

func inMilliseconds(ms float64) time.Duration {
	return time.Duration(ms * float64(time.Millisecond)).Round(time.Millisecond)
}

// askTimeout bounds a request to a running crawl, which is on this computer or near it and answers in milliseconds.
const askTimeout = 5 * time.Second

// askCrawl asks a crawl that listens at addr about a host. It returns nil if the crawl does not know the host.
func askCrawl(ctx context.Context, addr, token, host string) (*console.Host, error) {
	a, err := endpoint.ParseAddress(addr)
	if err != nil {
		return nil, fmt.Errorf("--control %s: %w", addr, err)
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.URL()+"api/hosts/"+url.PathEscape(host), nil)
	if err != nil {
		return nil, err
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := (&http.Client{}).Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask the crawl at %s: %w: is it the address that 'crawl --listen' was given?", addr, err)
	}
	defer func() { _ = resp.Body.Close() }() // it was only read
	switch resp.StatusCode {
	case http.StatusOK:
		h := new(console.Host)
		return h, json.NewDecoder(resp.Body).Decode(h)
	case http.StatusNotFound:
		return nil, nil //nolint:nilnil // it knows nothing of the host, and that is no error
	}
	return nil, fmt.Errorf("the crawl at %s answers %s: give it the token of its --listen by CRAWL_LISTEN_TOKEN or listen.token", addr, resp.Status)
}
