package redis

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

// known is a lossy cache of fingerprints surely in the store; a miss costs a trip.
type known struct{ slots []atomic.Uint64 }

func newKnown(n int) known {
	size := 1
	for size < n {
		size *= 2
	}
	return known{make([]atomic.Uint64, size)}
}

func (k *known) at(fp uint64) *atomic.Uint64 { return &k.slots[fp&uint64(len(k.slots)-1)] }

// has reports whether fp is known. Zero never is.
func (k *known) has(fp uint64) bool { return fp != 0 && k.at(fp).Load() == fp }

func (k *known) add(fp uint64) { k.at(fp).Store(fp) }

// forget takes a fingerprint out whose URL is not in the store.
func (k *known) forget(fp uint64) { k.at(fp).CompareAndSwap(fp, 0) }

// clear takes all out.
func (k *known) clear() {
	for i := range k.slots {
		k.slots[i].Store(0)
	}
}

// maxTurned bounds the URLs that are remembered as beyond a bound: 512 KiB, and the names of hosts.
const maxTurned = 1 << 16

// turned are fingerprints beyond the bounds of their hosts, cached as known to save trips. A refused page makes room,
// so they must leave the cache then.
type turned struct {
	hosts map[string][]uint64
	n     int
}

// turnAway remembers a URL that a bound has refused. If they are too many the cache forgets those of some host.
func (s *Store) turnAway(o *op) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name := range s.turned.hosts {
		if s.turned.n < maxTurned {
			break
		}
		s.readmitLocked(name)
	}
	s.turned.hosts[o.host] = append(s.turned.hosts[o.host], o.fp)
	s.turned.n++
}

// readmitLocked has the URLs of a host that were beyond its bound offered again when they are found again.
func (s *Store) readmitLocked(host string) {
	for _, fp := range s.turned.hosts[host] {
		s.known.forget(fp)
	}
	s.turned.n -= len(s.turned.hosts[host])
	delete(s.turned.hosts, host)
}

// readmit is that for the hosts of which a page was refused.
func (s *Store) readmit(ops []op) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range ops {
		if ops[i].kind == opDone && ops[i].refused {
			s.readmitLocked(ops[i].held.name)
		}
	}
}

// A server may lose acknowledged writes, by failover or between append-only syncs. Lost links are found again on other
// pages, unless the cache has them as known. So each call that adds URLs has a number, kept by the partition per
// process. A process that finds a lower one than acknowledged empties its cache and adds again what it finds.

// markFor is how long an idle process's number is surely kept: half the script's time.
const markFor = 12 * time.Hour

func (s *Store) markKey(p *part) string { return root(s.job.name, p.index) + "a:" + s.worker }

// acknowledged takes in that a partition acknowledged a call, and reports whether its number before was too low.
func (s *Store) acknowledged(p *part, before, number int64) (lost bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.cfg.Clock.Now()
	lost = before < p.acked && now.Sub(p.ackedAt) < markFor
	p.acked, p.ackedAt = max(before, number), now
	return lost
}

// checkMarks looks for losses in all partitions, as without adds none would show. Unreadable ones wait.
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
	if partitions > 0 {
		s.known.clear()
		s.counts.setbacks.Add(1)
		s.cfg.Log.Warn("Redis has lost what it had acknowledged: links are added again as they are found again", "job", s.job.name, "partitions", partitions)
	}
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
