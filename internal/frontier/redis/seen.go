package redis

import (
	"context"
	"sync/atomic"
)

// seen is what a process knows about which URLs the job has: a lossy cache of fingerprints that are certainly in the
// store; a miss costs a round trip. A server may lose acknowledged writes in a failover, or when it is restarted. A lost
// link is found again on other pages, and must then be added again. So the cache is emptied when a master is another
// process than before.
type seen struct {
	*process
	slots []atomic.Uint64
	runs  map[string]bool // the masters' processes, by their IDs; used by join and keep alone
}

func newSeen(p *process) *seen {
	size := 1
	for size < p.cfg.known {
		size *= 2
	}
	return &seen{process: p, slots: make([]atomic.Uint64, size)}
}

func (s *seen) at(fp uint64) *atomic.Uint64 { return &s.slots[fp&uint64(len(s.slots)-1)] }

// Known reports whether a URL of that fingerprint is certainly in the job. If it returns false, the URL may still be in
// the job. For the fingerprint zero it always returns false.
func (s *seen) Known(fp uint64) bool { return fp != 0 && s.at(fp).Load() == fp }

func (s *seen) add(fp uint64) { s.at(fp).Store(fp) }

// forget removes a fingerprint whose URL is not in the store.
func (s *seen) forget(fp uint64) { s.at(fp).CompareAndSwap(fp, 0) }

// checkServers empties the cache if a master is another process than at the last call. Nodes that do not answer are
// left out: whoever takes their place is another process.
func (s *seen) checkServers(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, tripTimeout)
	defer cancel()
	runs, fresh := make(map[string]bool), false
	for fields, err := range infos(ctx, s.link.Client) {
		if id := fields["run_id"]; err == nil && fields["role"] == "master" {
			runs[id], fresh = true, fresh || !s.runs[id]
		}
	}
	first := s.runs == nil
	if len(runs) > 0 {
		s.runs = runs
	}
	if first || !fresh {
		return
	}
	for i := range s.slots {
		s.slots[i].Store(0)
	}
	s.counts.setbacks.Add(1)
	s.cfg.Log.Warn("Redis was restarted, or a replica has taken its place: links that it may have lost are added again as they are found again", "job", s.job.name)
}
