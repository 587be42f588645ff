package redis

// A URL beyond the bound of its host is in the cache of what is known, though the job does not
// have it: it is found on page after page, and each time would cost a trip. When a page of the
// host turns out to be refused there is room for another one, so the cache must not
// have them any more.

// maxTurned bounds the URLs that are remembered as beyond a bound: 512 KiB, and the names of
// their hosts.
const maxTurned = 1 << 16

// turned are fingerprints of URLs beyond the bounds of their hosts, by these.
type turned struct {
	hosts map[string][]uint64
	n     int
}

// refusedOf are those of ops that a bound has refused, by their positions.
func refusedOf(ops []op, positions []message) (refused []op) {
	for _, m := range positions {
		if i := number(m); i >= 0 && i < int64(len(ops)) {
			refused = append(refused, ops[i])
		}
	}
	return refused
}

// turnAway remembers URLs that a bound has refused. If they are too many the cache forgets
// those of some host.
func (s *Store) turnAway(refused []op) {
	if s.job.max == 0 || len(refused) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range refused {
		for name := range s.turned.hosts {
			if s.turned.n < maxTurned {
				break
			}
			s.readmitLocked(name)
		}
		host := refused[i].host
		s.turned.hosts[host] = append(s.turned.hosts[host], refused[i].fp)
		s.turned.n++
	}
}

// readmitLocked has the URLs of a host that were beyond its bound offered again when they are
// found again.
func (s *Store) readmitLocked(host string) {
	list := s.turned.hosts[host]
	for _, fp := range list {
		s.known.forget(fp)
	}
	delete(s.turned.hosts, host)
	s.turned.n -= len(list)
}

// readmit is that for the hosts of which a page was refused.
func (s *Store) readmit(ops []op) {
	if s.job.max == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range ops {
		if ops[i].kind == opDone && ops[i].refused {
			s.readmitLocked(ops[i].held.name)
		}
	}
}
