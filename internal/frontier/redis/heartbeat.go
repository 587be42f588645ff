package redis

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// hello is the call by which this process is heard of for a while.
func (s *Store) hello(ttl time.Duration) *call {
	s.mu.Lock()
	hosts, loaded, idleness := len(s.hosts), len(s.handed), s.idleness
	s.idleTold = ttl > 0 && idleness.Still()
	s.mu.Unlock()
	c := &s.counts
	var use map[string]float64
	var busiest map[string]map[string]float64
	var leased int
	if ttl > 0 {
		if s.cfg.Use != nil {
			use = s.cfg.Use()
		}
		if s.cfg.Busiest != nil {
			busiest = s.cfg.Busiest()
		}
		if s.cfg.Leased != nil {
			leased = s.cfg.Leased()
		}
	}
	info, err := json.Marshal(WorkerInfo{
		Use: use, Busiest: busiest, Leased: leased,
		Name: s.cfg.Worker, Hosts: hosts, Added: c.added.Load(), Done: c.done.Load(), Dropped: c.dropped.Load(), Lost: c.lost.Load(),
		Loaded: loaded, Seeding: s.seeding.Load(), State: stateOf(&idleness),
	})
	if err != nil { // numbers and a name always have a form
		info = nil
	}
	name := s.job.name
	return &call{
		script: scriptHello,
		keys:   []string{jobKey(name, "job"), jobKey(name, "workers"), jobKey(name, "info"), jobKey(name, "seeds"), jobKey(name, "idle"), jobKey(name, "drawn")},
		args:   append([]string{timeArg(s.cfg.now), s.job.id, s.worker, decimal(ttl.Milliseconds()), string(info)}, s.idleArgs(&idleness)...),
	}
}

// greet says that the process is there, and takes in the verdict; nil if it has left. There is one
// at a time: what is answered later would be undone by what was answered before and came behind it,
// and a greeting under way could bring a process back that has left.
func (s *Store) greet(ctx context.Context) (*call, error) {
	s.beating.Lock()
	defer s.beating.Unlock()
	if s.parted {
		return nil, nil
	}
	c := s.hello(s.cfg.Lease)
	missing, err := s.link.try(ctx, []*call{c})
	if err == nil && len(missing) > 0 {
		_, err = s.link.try(ctx, missing)
	}
	if err = errors.Join(err, c.err); err != nil {
		return nil, err
	}
	if len(c.reply) < 4 {
		return nil, errors.New("redis: hello: the reply cannot be read")
	}
	s.judge(text(c.reply[2]))
	return c, nil
}

// takeLeave says that the process has gone, after which it is heard of no more.
func (s *Store) takeLeave(ctx context.Context) error {
	s.beating.Lock()
	defer s.beating.Unlock()
	s.parted = true
	_, err := s.link.one(ctx, s.hello(0))
	return err
}

// beat has the process be heard of, and hears what the job is to do and which seeds there are.
func (s *Store) beat(ctx context.Context) error {
	c, err := s.greet(ctx)
	if c == nil || err != nil {
		return err
	}
	s.counts.heartbeats.Add(1)
	control := Control(text(c.reply[0]))
	s.mu.Lock()
	changed := control != s.control
	s.control, s.heardAt = control, s.cfg.Clock.Now()
	s.mu.Unlock()
	if changed && s.cfg.OnControl != nil {
		s.cfg.OnControl(control)
	}
	if err := s.hearBounds(ctx, number(c.reply[3])); err != nil {
		return err
	}
	return s.hearSeeds(ctx, number(c.reply[1]))
}

// seedsMost bounds the seeds that are read at a time.
const seedsMost = 1000

type seed struct {
	url  string
	hops uint8
	at   int64
}

// hearSeeds tells of the seeds that were added since.
func (s *Store) hearSeeds(ctx context.Context, last int64) error {
	for s.cfg.OnSeed != nil && s.lastSeed < last {
		seeds, err := s.seedsBehind(ctx, s.lastSeed)
		if err != nil {
			return err
		}
		for _, seed := range seeds {
			s.cfg.OnSeed(seed.url, seed.hops)
			s.lastSeed = seed.at
		}
		if len(seeds) == 0 {
			return nil
		}
	}
	return nil
}

// seedsBehind reads some of the seeds of the job.
func (s *Store) seedsBehind(ctx context.Context, last int64) ([]seed, error) {
	c := s.link.Client
	found, err := c.Do(ctx, c.B().Zrangebyscore().Key(jobKey(s.job.name, "seeds")).
		Min("("+decimal(last)).Max("+inf").Withscores().Limit(0, seedsMost).Build()).AsZScores()
	if err != nil {
		return nil, fmt.Errorf("redis: read the seeds: %w", err)
	}
	seeds := make([]seed, len(found))
	for i, z := range found {
		seeds[i] = seed{z.Member, uint8(int64(z.Score) & 255), int64(z.Score)}
	}
	return seeds, nil
}
