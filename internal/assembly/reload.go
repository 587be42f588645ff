package assembly

import (
	"github.com/treadlight/crawl/internal/config"
	"github.com/treadlight/crawl/internal/ratelimit"
)

// Change is a setting with its old value and the new one.
type Change = config.Change

// Reload takes over what may change while the crawl runs: the rates and delays of hosts.
// Everything else stays as it was. It returns the settings that changed (the level of
// messages is among them, for whoever owns the log to follow) and those that would have
// had to; an error means that nothing changed, and names the setting. What was learned of
// hosts, and what they ordered, stays. It may be called at any time, but not by a hook.
func (c *Crawler) Reload(s *Settings) (applied, refused []Change, err error) {
	if err := s.Validate(); err != nil {
		return nil, nil, err
	}
	c.reloading.Lock()
	defer c.reloading.Unlock()
	now, applied, refused, err := config.Update(&c.inForce, s)
	if err != nil || len(applied) == 0 {
		return nil, refused, err
	}
	lc := limiterConfig(&now)
	err = c.limiter.SetRules(ratelimit.Rules{
		InitialRPS: lc.InitialRPS, MinRPS: lc.MinRPS, MaxRPS: lc.MaxRPS, MinDelay: lc.MinDelay, Hosts: lc.Hosts,
	})
	if err != nil {
		return nil, refused, err
	}
	c.inForce = now
	c.pipe.Revise()
	return applied, refused, nil
}
