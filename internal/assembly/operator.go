package assembly

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/treadlight/crawl/internal/observe/console"
	"github.com/treadlight/crawl/internal/pipeline"
	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/internal/web/canonical"
)

// steering is what was changed while the crawl ran, and outlives the process with its state.
type steering struct {
	mu       sync.Mutex          // held while something is changed; guards what follows
	blocked  map[string]struct{} // as many as the frontier takes at most
	ceilings map[string]float64  // as many as the limiter takes at most; requests per second
	rescoped bool                // the scope is another than some queued URLs were judged by
}

// kept is the form in which a state has it. The patterns of the scope are with the settings.
type kept struct {
	Blocked  []string           `json:"blocked,omitempty"`
	Ceilings map[string]float64 `json:"ceilings,omitempty"`
	Rescoped bool               `json:"rescoped,omitempty"`
}

// Block has nothing further asked of a host, known or not, until [Crawler.Unblock]; what is
// under way is finished. Its URLs stay queued. When only such hosts are left the crawl ends
// after MaxBlocked of the settings with [ErrBlocked]. A crawl with a state that is resumed
// has it blocked still. The host is written as records have it: with its port unless that is
// 80 or 443. The error names what is wrong with it, or is [ErrNotRunning]; see
// [Crawler.Pause].
func (c *Crawler) Block(host string) error {
	name, err := hostName(host)
	if err != nil {
		return err
	}
	c.steering.mu.Lock()
	defer c.steering.mu.Unlock()
	ok, err := c.pipe.Block(name)
	if err != nil || !ok {
		return orNotRunning(err)
	}
	c.steering.blocked[name] = struct{}{}
	c.keepSteering(name)
	return nil
}

// Unblock has a host asked again; of one that is not blocked it does nothing. See
// [Crawler.Block].
func (c *Crawler) Unblock(host string) error {
	name, err := hostName(host)
	if err != nil {
		return err
	}
	c.steering.mu.Lock()
	defer c.steering.mu.Unlock()
	if !c.pipe.Unblock(name) {
		return ErrNotRunning
	}
	delete(c.steering.blocked, name)
	c.keepSteering(name)
	return nil
}

// SetCeiling has a host be asked at most rps times a second, in place of the max_rps and the
// min_delay of the settings, be it less or more; zero brings those back. What robots.txt and
// the server ask for is obeyed as before, and how much of it is used is found out as before.
// It outlives [Crawler.Reload], and a state has it for the crawl that is resumed. The errors
// are as those of [Crawler.Block].
func (c *Crawler) SetCeiling(host string, rps float64) error {
	name, err := hostName(host)
	if err != nil {
		return err
	}
	c.steering.mu.Lock()
	defer c.steering.mu.Unlock()
	if !c.pipe.Wake(name) { // nothing has changed for it, but it tells whether there is a crawl
		return ErrNotRunning
	}
	if err := c.limiter.SetCeiling(name, rps); err != nil {
		return err
	}
	delete(c.steering.ceilings, name)
	if rps > 0 {
		c.steering.ceilings[name] = rps
	}
	c.keepSteering(name)
	return nil
}

// SetScope replaces the regular expressions of the scope: URLs that match one of exclude are
// left out, seeds among them, and links that match none of include, if there are any. Links
// found from then on are judged by them. URLs in the queue that they leave out are not asked
// for: each is recorded with the class of error "excluded" or "not_included" when its turn
// comes, and is done with, also if the scope is widened later. A crawl that is resumed goes
// on with the new scope. The error names the expression that is wrong, or is
// [ErrNotRunning]; see [Crawler.Pause].
func (c *Crawler) SetScope(include, exclude []string) error {
	c.steering.mu.Lock()
	defer c.steering.mu.Unlock()
	ok, err := c.pipe.SetScope(include, exclude)
	if err != nil || !ok {
		return orNotRunning(err)
	}
	c.reloading.Lock()
	c.inForce.Scope.Include, c.inForce.Scope.Exclude = slices.Clone(include), slices.Clone(exclude)
	settings := c.inForce
	c.reloading.Unlock()
	c.steering.rescoped = true
	if c.state != nil {
		if err := c.state.keep(settings); err != nil {
			return err
		}
	}
	c.keepSteering("")
	return nil
}

func orNotRunning(err error) error {
	if err != nil {
		return err
	}
	return ErrNotRunning
}

// hostName is the name under which a host is paced that a person has written.
func hostName(text string) (string, error) {
	u, err := canonical.Parse("http://" + text + "/")
	if err != nil || strings.ContainsAny(text, "/?#@") {
		return "", fmt.Errorf("%q is no host: write it as records do, such as example.com or example.com:8080", text)
	}
	return ratelimit.Domain(u.Host()), nil
}

// keepSteering notes in the state what is in force, and has Discovery look at a host again,
// which ends the batch that the note belongs to.
func (c *Crawler) keepSteering(host string) {
	if c.state != nil {
		s := &c.steering
		text, err := json.Marshal(kept{slices.Sorted(maps.Keys(s.blocked)), s.ceilings, s.rescoped})
		if err == nil { // there is nothing in it that JSON does not have
			c.state.store.SetMeta(metaSteering, string(text))
		}
	}
	c.pipe.Wake(host)
}

// recallSteering takes up what earlier runs have left. It comes before the pipeline is built.
func (c *Crawler) recallSteering(pc *pipeline.Config) error {
	s := &c.steering
	s.blocked, s.ceilings = make(map[string]struct{}), make(map[string]float64)
	if c.state == nil || !c.state.resumed {
		return nil
	}
	var k kept
	if text := c.state.store.Meta(metaSteering); text == "" {
		return nil
	} else if err := json.Unmarshal([]byte(text), &k); err != nil {
		return stateError(c.state.dir, fmt.Errorf("what was changed while it ran cannot be read: %w", err))
	}
	for _, host := range k.Blocked {
		s.blocked[host] = struct{}{}
	}
	for host, rps := range k.Ceilings {
		if c.limiter.SetCeiling(host, rps) == nil { // unless rates are not limited any more
			s.ceilings[host] = rps
		}
	}
	pc.Blocked = k.Blocked
	if s.rescoped = k.Rescoped; s.rescoped {
		if err := c.scope.SetPatterns(c.cfg.Scope.Include, c.cfg.Scope.Exclude); err != nil {
			return err
		}
	}
	if log := c.cfg.Log; log != nil && len(k.Blocked)+len(s.ceilings) > 0 {
		log.Warn("what was set while the crawl ran before holds still",
			slog.Int("blocked_hosts", len(k.Blocked)), slog.Int("ceilings", len(s.ceilings)))
	}
	return nil
}

// controls is what is in force, for people.
func (c *Crawler) controls() console.Controls {
	s := &c.steering
	s.mu.Lock()
	defer s.mu.Unlock()
	k := console.Controls{Blocked: slices.AppendSeq([]string{}, maps.Keys(s.blocked)), Ceilings: maps.Clone(s.ceilings)}
	slices.Sort(k.Blocked)
	k.Include, k.Exclude = c.scope.Patterns()
	return k
}
