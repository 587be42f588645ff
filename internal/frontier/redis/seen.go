package redis

import (
	"context"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

// seen is what a process knows about which URLs the job has.
//
// A server may lose acknowledged writes: in a failover, in a restart, or as an isolated master that becomes a replica.
// A lost link is found again on other pages, and must then be added again; the cache would treat it as known. So each
// call that adds URLs has a number, and the partition keeps the last number of each process. A process that finds a
// lower number than was acknowledged empties its cache, and adds what it finds again.
type seen struct {
	*process
	slots []atomic.Uint64 // a lossy cache of fingerprints that are certainly in the store; a miss costs a round trip

	checking atomic.Bool

	mu    sync.Mutex // guards what follows
	marks []mark     // by partition
}

type mark struct {
	acked int64
	at    time.Time
}

// markFor is how long the partitions certainly keep the number of an idle process: half the time that the script sets.
const markFor = 12 * time.Hour

func newSeen(p *process) *seen {
	return &seen{process: p, slots: make([]atomic.Uint64, 1<<bits.Len(uint(max(p.cfg.known, 1)-1)))}
}

func (s *seen) at(fp uint64) *atomic.Uint64 { return &s.slots[fp&uint64(len(s.slots)-1)] }

// Known reports whether a URL of that fingerprint is certainly in the job. If it returns false, the URL may still be in
// the job. For the fingerprint zero it always returns false.
func (s *seen) Known(fp uint64) bool { return fp != 0 && s.at(fp).Load() == fp }

func (s *seen) add(fp uint64) { s.at(fp).Store(fp) }

// forget removes a fingerprint whose URL is not in the store.
func (s *seen) forget(fp uint64) { s.at(fp).CompareAndSwap(fp, 0) }

func (s *seen) markKey(partition int) string {
	return root(s.job.name, partition) + "a:" + s.worker
}

// acknowledged records that a partition acknowledged a call with that number, and reports whether the number before was
// lower than what it had acknowledged, which means a loss.
func (s *seen) acknowledged(partition int, before, number int64) (lost bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m, now := &s.marks[partition], s.cfg.Clock.Now()
	lost = before < m.acked && now.Sub(m.at) < markFor
	*m = mark{max(before, number), now}
	return lost
}

// marked returns the partitions that have acknowledged a call of this process within a time.
func (s *seen) marked(within time.Duration) (parts []int, acked []int64, keys []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for p, m := range s.marks {
		if m.acked > 0 && s.cfg.Clock.Since(m.at) < within {
			parts, acked, keys = append(parts, p), append(acked, m.acked), append(keys, s.markKey(p))
		}
	}
	return parts, acked, keys
}

// checkSoon starts checkMarks, unless it is still running: a silent server must not hold up the caller.
func (s *seen) checkSoon() {
	if s.checking.CompareAndSwap(false, true) {
		s.work.Go(func() {
			defer s.checking.Store(false)
			s.checkMarks(s.life)
		})
	}
}

// checkMarks looks for losses in all partitions, since without further adds none would show. Partitions that cannot be
// read are skipped until the next time.
func (s *seen) checkMarks(ctx context.Context) {
	var list rueidis.Commands
	parts, acked, keys := s.marked(markFor)
	for _, key := range keys {
		list = append(list, s.link.B().Get().Key(key).Build())
	}
	ctx, cancel := context.WithTimeout(ctx, tripTimeout)
	defer cancel()
	lost := 0
	for i, res := range s.link.DoMulti(ctx, list...) {
		was, err := res.AsInt64()
		if err != nil && !rueidis.IsRedisNil(err) || was >= acked[i] {
			continue
		}
		s.mu.Lock()
		if m := &s.marks[parts[i]]; m.acked == acked[i] { // otherwise an add has found the loss, or dropMarks was called
			m.acked = was
			lost++
		}
		s.mu.Unlock()
	}
	s.noteLost(lost)
}

// noteLost empties the cache if partitions have lost something.
func (s *seen) noteLost(partitions int) {
	if partitions == 0 {
		return
	}
	for i := range s.slots {
		s.slots[i].Store(0)
	}
	s.counts.setbacks.Add(1)
	s.cfg.Log.Warn("Redis has lost what it had acknowledged: links are added again as they are found again", "job", s.job.name, "partitions", partitions)
}

// dropMarks removes this process's numbers from the partitions, when it leaves. Those that it cannot remove expire.
func (s *seen) dropMarks(ctx context.Context) {
	var list rueidis.Commands
	_, _, keys := s.marked(1<<63 - 1)
	s.mu.Lock()
	clear(s.marks)
	s.mu.Unlock()
	for _, key := range keys {
		list = append(list, s.link.B().Del().Key(key).Build())
	}
	ctx, cancel := context.WithTimeout(ctx, tripTimeout)
	defer cancel()
	s.link.DoMulti(ctx, list...)
}
