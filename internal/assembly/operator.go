package assembly

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/treadlight/crawl/internal/config"
	"github.com/treadlight/crawl/internal/pipeline"
	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/internal/web/canonical"
)

// ErrNotRunning is the error of what can be done to a crawl only while it runs.
var ErrNotRunning = pipeline.ErrNotRunning

// changes is what the operator has changed while the crawl ran. It outlives the process with its state.
type changes struct {
	mu       sync.Mutex          // held while something is changed; guards what follows
	blocked  map[string]struct{} // as many as the frontier takes at most
	ceilings map[string]float64  // as many as the limiter takes at most; requests per second
	rescoped bool                // the scope is another than some queued URLs were judged by
	inForce  Settings            // those of the crawl, with what Reload and SetScope changed
}

// savedChanges is the form in which a state has them. The patterns of the scope are with the settings.
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

// Pause has nothing further asked for until [Crawler.Resume].
func (c *Crawler) Pause() error { return whileRunning(c.pipe.Pause(), nil) }

// Resume has a paused crawl go on.
func (c *Crawler) Resume() error { return whileRunning(c.pipe.Unpause(), nil) }

// Paused reports whether Pause was called last, and not Resume.
func (c *Crawler) Paused() bool { return c.pipe.Paused() }

func whileRunning(running bool, err error) error {
	if err == nil && !running {
		return ErrNotRunning
	}
	return err
}

// AddSeed adds a URL of the user's, whose host may have a private address, to a crawl that runs, or to those that a run
// begins with.
func (c *Crawler) AddSeed(url string, q pipeline.Request) error {
	u, err := parseSeed(url)
	if err != nil {
		return err
	}
	s, err := pipeline.NewSeed(u, q)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrSeed, err)
	}
	if c.early.add(s) {
		return nil
	}
	c.named.add(context.Background(), u)
	return whileRunning(c.pipe.AddSeed(s), nil)
}

// earlySeeds are those that are added before the run.
type earlySeeds struct {
	mu    sync.Mutex
	list  []pipeline.Seed
	taken bool
}

// add reports false once a run has taken them.
func (e *earlySeeds) add(s pipeline.Seed) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.taken {
		e.list = append(e.list, s)
	}
	return !e.taken
}

func (e *earlySeeds) take() []pipeline.Seed {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.taken = true
	return e.list
}

// Block has nothing further asked of a host, known or not, until [Crawler.Unblock].
func (c *Crawler) Block(host string) error {
	return c.changeHost(host, func(name string) (bool, error) {
		ok, err := c.pipe.Block(name)
		if ok && err == nil {
			c.changes.blocked[name] = struct{}{}
		}
		return ok, err
	})
}

// Unblock has a host asked again; of one that is not blocked it does nothing.
func (c *Crawler) Unblock(host string) error {
	return c.changeHost(host, func(name string) (bool, error) {
		ok := c.pipe.Unblock(name)
		if ok {
			delete(c.changes.blocked, name)
		}
		return ok, nil
	})
}

// SetCeiling has a host be asked at most rps times a second, in place of what the settings say; zero brings that back.
func (c *Crawler) SetCeiling(host string, rps float64) error {
	return c.changeHost(host, func(name string) (bool, error) {
		if !c.pipe.Wake(name) { // nothing has changed for it, but it tells whether there is a crawl
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

// changeHost changes something for a host that a person has written, and keeps that. The change reports whether the
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

// keepChanges notes in the state what is in force, and has Discovery look at a host again, which ends the batch that
// the note belongs to.
func (c *Crawler) keepChanges(host string) {
	if c.state != nil {
		h := &c.changes
		text, err := json.Marshal(savedChanges{slices.Sorted(maps.Keys(h.blocked)), h.ceilings, h.rescoped})
		if err == nil { // there is nothing in it that JSON does not have
			c.state.store.SetMeta(metaChanges, string(text))
		}
	}
	c.pipe.Wake(host)
}

// restoreChanges takes up what earlier runs have left. It comes before the pipeline is built.
func (c *Crawler) restoreChanges(pc *pipeline.Config) error {
	h := &c.changes
	h.blocked, h.ceilings = make(map[string]struct{}), make(map[string]float64)
	if c.state == nil || !c.state.resumed {
		return nil
	}
	var saved savedChanges
	if text := c.state.store.Meta(metaChanges); text == "" {
		return nil
	} else if err := json.Unmarshal([]byte(text), &saved); err != nil {
		return stateError(c.state.dir, fmt.Errorf("what was changed while it ran cannot be read: %w", err))
	}
	for _, host := range saved.Blocked {
		h.blocked[host] = struct{}{}
	}
	for host, rps := range saved.Ceilings {
		if c.limiter.SetCeiling(host, rps) == nil { // unless rates are not limited any more
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
	return nil
}

// Controls are what operators have changed while the crawl ran.
type Controls struct {
	Blocked          []string           // hosts, in order
	Ceilings         map[string]float64 // requests per second, by host
	Include, Exclude []string           // the patterns of the scope, changed or not
}

// Controls is what is in force, for people.
func (c *Crawler) Controls() Controls {
	h := &c.changes
	h.mu.Lock()
	defer h.mu.Unlock()
	k := Controls{Blocked: slices.AppendSeq([]string{}, maps.Keys(h.blocked)), Ceilings: maps.Clone(h.ceilings)}
	slices.Sort(k.Blocked)
	k.Include, k.Exclude = c.scope.Patterns()
	return k
}

// Reload takes over what may change while the crawl runs: the rates and delays of hosts. It returns the settings that
// changed and those that would have had to; an error means that nothing changed.
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

// AddForeignSeed adds a seed for a client of the console, who may be anybody that has got the token, or a program that
// reads what pages say: it allows no private address. It returns the URL as the crawl spells it. One that is excluded
// is refused, as somebody waits for the answer.
func (c *Crawler) AddForeignSeed(url string) (string, error) {
	u, err := parseSeed(url)
	if err != nil {
		return "", err
	}
	if v := c.scope.Recheck(u, true); !v.In {
		return "", fmt.Errorf("%s is %s", u, v.Reason())
	}
	c.named.trust(u)
	return u.String(), whileRunning(c.pipe.AddSeed(pipeline.Seed{URL: u}), nil)
}

// Ready reports why the crawl cannot do its work, as far as that is not the hosts' fault.
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
