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

// fileMemory is the file of ratelimit.remember. Its errors name the setting.
type fileMemory struct{ memory.Place }

func (f fileMemory) Load() ([]ratelimit.HostMemory, memory.Damage, error) {
	hosts, damage, err := f.Place.Load()
	if err != nil {
		err = fmt.Errorf("ratelimit.remember: %w", err)
	}
	return hosts, damage, err
}

// stateMemory is the host memory in the state of the crawl. Save returns no error of a state that has failed, which
// ends the crawl by itself.
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

// memoryFiles returns the file that the settings name; none if they name none or if rates are not limited.
func memoryFiles(r *config.RateLimit) ([]memory.Place, error) {
	if r.Remember == "" || !r.Enabled() {
		return nil, nil
	}
	place, err := memory.At(memory.Config{Path: r.Remember, MaxWait: r.MaxRetryAfter})
	return []memory.Place{fileMemory{place}}, err
}

// CheckMemory returns the error that a run would have with the file of ratelimit.remember. It changes nothing, and
// returns nil if no file is named or if it does not exist yet.
func CheckMemory(s *Settings) error {
	files, err := memoryFiles(&s.RateLimit)
	if err != nil || len(files) == 0 {
		return err
	}
	_, _, err = files[0].Load()
	return err
}

// startBeside loads what earlier crawls learned, and starts what runs beside the crawl. leave ends that, and saves what
// was learned for later crawls.
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
		companions.Go(func() { _ = c.limiter.Run(beside) }) // it ends with beside, and has no other error
	}
	companions.Go(func() { k.Run(beside) })
	if f := c.fleet; f != nil {
		companions.Go(func() { f.Run(beside) })
	}
	return func() {
		stop()
		companions.Wait()
		k.SaveLast(context.WithoutCancel(ctx)) // a canceled crawl has learned something too
	}, nil
}
