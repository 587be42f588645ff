package assembly

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/treadlight/crawl/internal/config"
	"github.com/treadlight/crawl/internal/pipeline"
	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/internal/web/canonical"
	"github.com/treadlight/crawl/internal/web/request"
)

// maxToldBlocked is how many hosts that an earlier run has blocked are named when a crawl is resumed.
const maxToldBlocked = 10

// ErrNotRunning is the error of operations that are possible only while the crawl runs.
var ErrNotRunning = pipeline.ErrNotRunning

// changes is what the operator has changed while the crawl runs. A state keeps it for later runs.
type changes struct {
	mu       sync.Mutex         // held during a change; guards what follows
	ceilings map[string]float64 // requests per second; at most as many hosts as the limiter accepts
	rescoped bool               // some queued URLs were checked against another scope
	inForce  Settings           // settings of the crawl, including what Reload and SetScope changed
}

// savedChanges is the form in which a state keeps the changes. The patterns of the scope are part of the settings.
type savedChanges struct {
	Blocked  []string           `json:"blocked,omitempty"`
	Ceilings map[string]float64 `json:"ceilings,omitempty"`
	Rescoped bool               `json:"rescoped,omitempty"`
}

func (h *changes) settings() Settings {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.inForce
}

// Pause stops further requests until [Crawler.Resume].
func (c *Crawler) Pause() error { return whileRunning(c.pipe.Pause(), nil) }

// Resume continues a paused crawl.
func (c *Crawler) Resume() error { return whileRunning(c.pipe.Unpause(), nil) }

// Paused reports whether the crawl is paused.
func (c *Crawler) Paused() bool { return c.pipe.Paused() }

func whileRunning(running bool, err error) error {
	if err == nil && !running {
		return ErrNotRunning
	}
	return err
}

// AddSeed adds a seed of the user, whose host may have a private address. Before the run it is added to the seeds that
// the run begins with.
func (c *Crawler) AddSeed(url string, q request.Request) error {
	u, err := parseSeed(url)
	if err != nil {
		return err
	}
	s, err := request.NewSeed(u, q)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrSeed, err)
	}
	if c.early.add(s) {
		return nil
	}
	c.named.add(context.Background(), u)
	return whileRunning(c.pipe.AddSeed(s), nil)
}

// earlySeeds are the seeds that are added before the run.
type earlySeeds struct {
	mu    sync.Mutex
	list  []request.Seed
	taken bool
}

// add reports false if a run has taken the seeds already.
func (e *earlySeeds) add(s request.Seed) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.taken {
		e.list = append(e.list, s)
	}
	return !e.taken
}

func (e *earlySeeds) take() []request.Seed {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.taken = true
	return e.list
}

// Block stops further requests to a host, known or unknown, until [Crawler.Unblock].
func (c *Crawler) Block(host string) error {
	return c.changeHost(host, c.pipe.Block)
}

// Unblock allows requests to a host again. It does nothing if the host is not blocked.
func (c *Crawler) Unblock(host string) error {
	return c.changeHost(host, func(name string) (bool, error) { return c.pipe.Unblock(name), nil })
}

// SetCeiling limits the requests to a host to rps per second, in place of what the settings say. Zero restores the
// settings.
func (c *Crawler) SetCeiling(host string, rps float64) error {
	return c.changeHost(host, func(name string) (bool, error) {
		if !c.pipe.Wake(name) { // waking the host changes nothing; it shows whether the crawl runs
			return false, nil
		}
		if err := c.limiter.SetCeiling(name, rps); err != nil {
			return true, err
		}
		delete(c.changes.ceilings, name)
		if rps > 0 {
			c.changes.ceilings[name] = rps
		}
		return true, nil
	})
}

// changeHost changes something about a host that a person has named, and stores the change. change reports whether the
// crawl runs.
func (c *Crawler) changeHost(text string, change func(name string) (bool, error)) error {
	u, err := canonical.Parse("http://" + text + "/")
	if err != nil || strings.ContainsAny(text, "/?#@") {
		return fmt.Errorf("%q is no host: write it as records do, such as example.com or example.com:8080", text)
	}
	name := ratelimit.Domain(u.Host())
	c.changes.mu.Lock()
	defer c.changes.mu.Unlock()
	if err := whileRunning(change(name)); err != nil {
		return err
	}
	c.keepChanges(name)
	return nil
}

// SetScope replaces the regular expressions of the scope.
func (c *Crawler) SetScope(include, exclude []string) error {
	h := &c.changes
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := whileRunning(c.pipe.SetScope(include, exclude)); err != nil {
		return err
	}
	h.inForce.Scope.Include, h.inForce.Scope.Exclude = slices.Clone(include), slices.Clone(exclude)
	h.rescoped = true
	if c.state != nil {
		if err := c.state.keep(h.inForce); err != nil {
			return err
		}
	}
	c.keepChanges("")
	return nil
}

// keepChanges stores in the state what is in force, and wakes a host in Discovery, which ends the batch that the stored
// value belongs to.
func (c *Crawler) keepChanges(host string) {
	if c.state != nil {
		h := &c.changes
		text, err := json.Marshal(savedChanges{c.pipe.Blocked(), h.ceilings, h.rescoped})
		if err == nil { // this always holds: JSON can represent all of it
			c.state.store.SetMeta(metaChanges, string(text))
		}
	}
	c.pipe.Wake(host)
}

// restoreChanges restores the changes of earlier runs. It must be called before the pipeline is built.
func (c *Crawler) restoreChanges(pc *pipeline.Config) error {
	h := &c.changes
	h.ceilings = make(map[string]float64)
	if c.state == nil || !c.state.resumed {
		return nil
	}
	var saved savedChanges
	if text := c.state.store.Meta(metaChanges); text == "" {
		return nil
	} else if err := json.Unmarshal([]byte(text), &saved); err != nil {
		return stateError(c.state.dir, fmt.Errorf("what was changed while it ran cannot be read: %w", err))
	}
	for host, rps := range saved.Ceilings {
		if c.limiter.SetCeiling(host, rps) == nil { // fails if rates are not limited any more
			h.ceilings[host] = rps
		}
	}
	pc.Blocked = saved.Blocked
	if h.rescoped = saved.Rescoped; h.rescoped {
		if err := c.scope.SetPatterns(c.cfg.Scope.Include, c.cfg.Scope.Exclude); err != nil {
			return err
		}
	}
	if len(saved.Blocked)+len(h.ceilings) > 0 {
		c.log.Warn("what was set while the crawl ran before holds still",
			slog.Int("blocked_hosts", len(saved.Blocked)), slog.Int("ceilings", len(h.ceilings)))
	}
	for i, host := range saved.Blocked {
		if i == maxToldBlocked {
			c.log.Warn("more hosts stay blocked; GET /api/controls lists them", slog.Int("hosts", len(saved.Blocked)-i))
			break
		}
		c.log.Warn("the host stays blocked", slog.String("host", host), slog.String("unblock", "POST /api/hosts/"+url.PathEscape(host)+"/unblock"))
	}
	return nil
}

// Controls returns what is in force, for people.
func (c *Crawler) Controls() pipeline.Controls {
	h := &c.changes
	h.mu.Lock()
	defer h.mu.Unlock()
	k := pipeline.Controls{Blocked: c.pipe.Blocked(), Ceilings: maps.Clone(h.ceilings)}
	k.Include, k.Exclude = c.scope.Patterns()
	return k
}

// Reload applies the settings that may change while the crawl runs: the rates and delays of hosts. It returns the
// changes that it applied, and those that it could not apply. An error means that nothing was changed.
func (c *Crawler) Reload(s *Settings) (applied, refused []config.Change, err error) {
	if err := s.Validate(); err != nil {
		return nil, nil, err
	}
	h := &c.changes
	h.mu.Lock()
	defer h.mu.Unlock()
	now, applied, refused, err := config.Update(&h.inForce, s)
	if err != nil || len(applied) == 0 {
		return nil, refused, err
	}
	if c.member != nil {
		return nil, append(refused, applied...), nil
	}
	lc := LimiterConfig(&now)
	err = c.limiter.SetRules(ratelimit.Rules{
		InitialRPS: lc.InitialRPS, MinRPS: lc.MinRPS, MaxRPS: lc.MaxRPS, MinDelay: lc.MinDelay, Hosts: lc.Hosts,
	})
	if err != nil {
		return nil, refused, err
	}
	h.inForce = now
	c.pipe.Revise()
	return applied, refused, nil
}

// AddForeignSeed adds a seed for a client of the console, and returns the URL in its canonical form. The client may be
// anybody who has the token, or a program that follows what pages say, so the seed allows no private address. A URL
// that is excluded from the scope is an error, as somebody waits for the answer.
func (c *Crawler) AddForeignSeed(url string) (string, error) {
	u, err := parseSeed(url)
	if err != nil {
		return "", err
	}
	if v := c.scope.Recheck(u, true); !v.In {
		return "", fmt.Errorf("%s is %s", u, v.Reason())
	}
	c.named.trust(u)
	return u.String(), whileRunning(c.pipe.AddSeed(request.Seed{URL: u}), nil)
}

// Ready returns why the crawl cannot do its work, as far as the hosts are not the reason; nil means that it can.
func (c *Crawler) Ready() error {
	if !c.began.Load() {
		return errors.New("the crawl has not begun")
	}
	select {
	case <-c.pipe.Halted():
		end, reason := c.pipe.End()
		if end == pipeline.EndNone {
			return errors.New("the crawl is ending")
		}
		return fmt.Errorf("the crawl is over or ending: %s: %s", end, reason)
	default:
	}
	if s := c.state; s != nil {
		return stateError(s.dir, s.store.Err())
	}
	return nil
}
