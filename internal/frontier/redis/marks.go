package redis

import (
	"context"
	"time"

	"github.com/redis/rueidis"
)

// A server that was acknowledged to may lose what it has acknowledged: a replica that takes a
// master's place before it has heard all, a restart with an append-only file that is written once a
// second. The links of those moments are found again on other pages, but for one thing: the
// cache says that they are known. So each call that adds URLs has a number, and the partition keeps
// the last one of each process, beside what was added by it. Who finds a lower number there
// than was acknowledged has an empty cache from then on, and adds again what it finds.

// markFor is how long a partition keeps the number of a process that adds nothing: half of
// what the script says, so that a number which is gone then was lost.
const markFor = 12 * time.Hour

func (s *Store) markKey(p *part) string { return root(s.job.name, p.index) + "a:" + s.worker }

// acknowledged takes in that a call was acknowledged by a partition that had the number before.
// It reports whether that was too low.
func (s *Store) acknowledged(p *part, before, number int64) (lost bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.cfg.Clock.Now()
	lost = before < p.acked && now.Sub(p.ackedAt) < markFor
	p.acked, p.ackedAt = max(before, number), now
	return lost
}

// checkMarks looks for what was lost in all partitions: where the links that are found are all
// in the cache, nothing is added by which it would show. What cannot be read is looked at the
// next time.
func (s *Store) checkMarks(ctx context.Context) {
	var parts []*part
	var acked []int64
	var list rueidis.Commands
	now := s.cfg.Clock.Now()
	s.mu.Lock()
	for _, p := range s.parts {
		if p.acked > 0 && now.Sub(p.ackedAt) < markFor {
			parts, acked = append(parts, p), append(acked, p.acked)
			list = append(list, s.link.B().Get().Key(s.markKey(p)).Build())
		}
	}
	s.mu.Unlock()
	if len(list) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, tripTimeout)
	defer cancel()
	lost := 0
	for i, res := range s.link.DoMulti(ctx, list...) {
		mark, err := res.AsInt64()
		if err != nil && !rueidis.IsRedisNil(err) || mark >= acked[i] {
			continue
		}
		lost++
		s.mu.Lock()
		if p := parts[i]; p.acked == acked[i] { // or it was found when more was added
			p.acked = mark
		}
		s.mu.Unlock()
	}
	s.noteLost(lost)
}

// noteLost empties the cache if partitions have lost something.
func (s *Store) noteLost(partitions int) {
	if partitions == 0 {
		return
	}
	s.known.clear()
	s.counts.setbacks.Add(1)
	s.cfg.Log.Warn("Redis has lost what it had acknowledged: links are added again as they are found again", "job", s.job.name, "partitions", partitions)
}

// dropMarks removes what the partitions have of this process.
func (s *Store) dropMarks(ctx context.Context) error {
	var list rueidis.Commands
	s.mu.Lock()
	for _, p := range s.parts {
		if p.acked > 0 {
			list = append(list, s.link.B().Del().Key(s.markKey(p)).Build())
			p.acked = 0
		}
	}
	s.mu.Unlock()
	for _, res := range s.link.DoMulti(ctx, list...) {
		if err := res.Error(); err != nil {
			return err
		}
	}
	return nil
}
