package redis

import (
	"context"
	"fmt"

	"github.com/redis/rueidis"
)

// Opening is what the job has of a host and a port that the user named: the addresses that they
// have opened, as [Store.Open] was told; empty if nobody told.
func (s *Store) Opening(ctx context.Context, host string) (addrs string, err error) {
	c := s.link.Client
	addrs, err = c.Do(ctx, c.B().Hget().Key(jobKey(s.job.name, "openings")).Field(host).Build()).ToString()
	if rueidis.IsRedisNil(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("redis: read what seeds have opened: %w", err)
	}
	return addrs, nil
}

// Open notes what a host and a port that the user named have opened, unless another process has
// before.
func (s *Store) Open(ctx context.Context, host, addrs string) error {
	c := s.link.Client
	if err := c.Do(ctx, c.B().Hsetnx().Key(jobKey(s.job.name, "openings")).Field(host).Value(addrs).Build()).Error(); err != nil {
		return fmt.Errorf("redis: keep what seeds have opened: %w", err)
	}
	return nil
}
