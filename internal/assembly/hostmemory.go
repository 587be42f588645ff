package assembly

import (
	"context"
	"fmt"
	"iter"
	"sync"

	"github.com/treadlight/crawl/internal/config"
	"github.com/treadlight/crawl/internal/frontier/disk"
	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/internal/ratelimit/memory"
)

// fileMemory is the file of ratelimit.remember, whose errors have the name of the setting.
type fileMemory struct{ memory.Place }

func (f fileMemory) Load() ([]ratelimit.HostMemory, memory.Damage, error) {
	hosts, damage, err := f.Place.Load()
	if err != nil {
		err = fmt.Errorf("ratelimit.remember: %w", err)
	}
	return hosts, damage, err
}

// stateMemory is the state of the crawl. One that has failed ends the crawl and says so by itself.
type stateMemory struct {
	disk.Rates
	state *State
}

func (m stateMemory) Load() ([]ratelimit.HostMemory, memory.Damage, error) {
	hosts, damage, err := m.Rates.Load()
	return hosts, damage, stateError(m.state.dir, err)
}

func (m stateMemory) Save(ctx context.Context, hosts iter.Seq[ratelimit.HostMemory]) error {
	if err := m.Rates.Save(ctx, hosts); m.state.store.Err() == nil {
		return err
	}
	return nil
}

// memoryFiles are the file that the settings name; nothing if they name none, or nothing is paced.
func memoryFiles(r *config.RateLimit) ([]memory.Place, error) {
	if r.Remember == "" || !r.Enabled() {
		return nil, nil
	}
	place, err := memory.At(memory.Config{Path: r.Remember, MaxWait: r.MaxRetryAfter})
	return []memory.Place{fileMemory{place}}, err
}

// CheckMemory reports what is wrong with the file of ratelimit.remember, as a run would. It changes nothing and returns
// nil if there is no such file yet, or none is named.
func CheckMemory(s *Settings) error {
	files, err := memoryFiles(&s.RateLimit)
	if err != nil || len(files) == 0 {
		return err
	}
	_, _, err = files[0].Load()
	return err
}

// startBeside recalls what earlier crawls learned and starts what runs beside the crawl. What it returns ends that and
// leaves what was learned to later crawls.
func (c *Crawler) startBeside(ctx context.Context) (leave func(), err error) {
	k := &memory.Keeper{Limiter: c.limiter, Clock: c.clk, Log: c.log, Pauses: c.pauses}
	if c.state != nil && c.cfg.RateLimit.Enabled() {
		k.Places = append(k.Places, stateMemory{c.state.store.Rates(), c.state})
	}
	files, err := memoryFiles(&c.cfg.RateLimit)
	if err != nil {
		return nil, err
	}
	k.Places = append(k.Places, files...)
	if err := k.Recall(); err != nil {
		return nil, err
	}
	beside, stop := context.WithCancel(ctx)
	var companions sync.WaitGroup
	if c.member == nil {
		companions.Go(func() { _ = c.limiter.Run(beside) }) // ends with beside, and has no other error
	}
	companions.Go(func() { k.Run(beside) })
	if f := c.fleet; f != nil {
		companions.Go(func() { f.Run(beside) })
	}
	return func() {
		stop()
		companions.Wait()
		k.SaveLast(context.WithoutCancel(ctx)) // a crawl that is given up has learned as well
	}, nil
}
