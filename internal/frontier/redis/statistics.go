package redis

import (
	"sync/atomic"
	"time"
)

// counts are the counters of [Statistics].
type counts struct {
	added, duplicates, refused, dropped, done, stale, lost, given, acquired, oom, heartbeats, setbacks, syncs atomic.Int64
	rtt                                                                                                       atomic.Int64
}

// Statistics is what a Store has counted since it was opened.
type Statistics struct {
	Worker     string        `json:"worker"`
	Trips      int64         `json:"trips"`      // pipelines sent
	Commands   int64         `json:"commands"`   // scripts in them
	Bytes      int64         `json:"bytes"`      // of their arguments
	Retries    int64         `json:"retries"`    // commands sent again, as no answer came
	Reloads    int64         `json:"reloads"`    // of scripts that a server did not know
	Added      int64         `json:"added"`      // URLs that were new
	Duplicates int64         `json:"duplicates"` // URLs that turned out to be known
	Refused    int64         `json:"refused"`    // URLs beyond the bound of their host
	Dropped    int64         `json:"dropped"`    // URLs for which the server had no memory
	Done       int64         `json:"done"`       // URLs
	Stale      int64         `json:"stale"`      // hosts of which a write came too late
	Lost       int64         `json:"lost"`       // hosts whose lease ended
	Given      int64         `json:"given"`      // hosts given back
	Acquired   int64         `json:"acquired"`   // hosts
	Hosts      int           `json:"hosts"`      // that this process has
	Loaded     int           `json:"loaded"`     // URLs handed out to it and not done
	Pending    int64         `json:"pending"`    // calls that wait to be sent
	LastTrip   time.Duration `json:"last_trip"`  // how long the last batch took
	Full       bool          `json:"full"`       // the server has no memory left for new URLs
	Heartbeats int64         `json:"heartbeats"` // answered
	Setbacks   int64         `json:"setbacks"`   // times the server had lost what it had acknowledged
	Syncs      int64         `json:"syncs"`      // of the sinks
}

// Statistics is what was counted so far.
func (s *Store) Statistics() Statistics {
	s.mu.Lock()
	hosts, loaded := len(s.hosts), len(s.handed)
	s.mu.Unlock()
	c := &s.counts
	return Statistics{
		Worker: s.cfg.Worker, Trips: s.link.trips.Load(), Commands: s.link.commands.Load(), Bytes: s.link.bytes.Load(),
		Retries: s.link.retries.Load(), Reloads: s.link.reloads.Load(), Added: c.added.Load(), Duplicates: c.duplicates.Load(),
		Refused: c.refused.Load(), Dropped: c.dropped.Load(), Done: c.done.Load(), Stale: c.stale.Load(),
		Lost: c.lost.Load(), Given: c.given.Load(), Acquired: c.acquired.Load(), Hosts: hosts, Loaded: loaded,
		Pending: s.pending.Load(), LastTrip: time.Duration(c.rtt.Load()), Full: c.oom.Load() > 0, Heartbeats: c.heartbeats.Load(),
		Setbacks: c.setbacks.Load(), Syncs: c.syncs.Load(),
	}
}
