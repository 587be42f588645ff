package redis

import (
	"strings"
	"time"

	"github.com/treadlight/crawl/internal/frontier"
)

// That only blocked hosts remain is said of the whole job, as hosts and URLs of one process may
// become another's. Each heartbeat tells whether the process works, has no URL, or only hosts
// that refuse; the script of it gives the verdict when nobody works any more, and whoever works
// takes it back.

// The states of a process, for people.
const (
	stateWorking = "working"
	stateIdle    = "idle"
	stateBlocked = "blocked"
)

// reasonMost bounds what the others are told of why hosts refuse.
const reasonMost = 1 << 10

func stateOf(i *frontier.Idleness) string {
	switch {
	case i.Whole:
		return stateBlocked
	case i.Idle:
		return stateIdle
	}
	return stateWorking
}

// Idles says how far this process has nothing to do. The others hear of it with the next
// heartbeat, and at once if it works after they were told otherwise. It is quick.
func (s *Store) Idles(i frontier.Idleness) {
	s.mu.Lock()
	s.idleness = i
	correct := s.idleTold && !i.Still()
	s.idleTold = s.idleTold && !correct
	if !i.Still() {
		s.verdict = "" // whatever was said
	}
	s.mu.Unlock()
	if correct {
		s.beatSoon()
	}
}

// Verdict is why the job is at its end with only blocked hosts left, as was heard last; empty
// if it is not. One who has something to do all the same goes on, and the verdict is void.
func (s *Store) Verdict() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.verdict
}

// Judged receives when Verdict may say otherwise than before.
func (s *Store) Judged() <-chan struct{} { return s.judged }

// judge takes in what a heartbeat was answered.
func (s *Store) judge(verdict string) {
	s.mu.Lock()
	if !s.idleness.Still() {
		verdict = "" // it was asked for before there was something to do
	}
	changed := s.verdict != verdict
	s.verdict = verdict
	s.mu.Unlock()
	if changed {
		signal(s.judged)
	}
}

// untilHeard is how long hosts are kept from others when the store is closed: until all of
// them have heard of a verdict, or they would be kept from their end by what this one leaves.
func (s *Store) untilHeard() time.Duration {
	if s.Verdict() == "" {
		return 0
	}
	return s.cfg.Lease
}

// idleArgs is what the script of a heartbeat is told of it.
func (s *Store) idleArgs(i *frontier.Idleness) []string {
	now := s.cfg.Clock.Now()
	kind, ordered, until := "w", "0", time.Duration(0)
	switch {
	case i.Whole && i.Excluded:
		kind = "x"
	case i.Whole:
		kind, until = "b", max(0, i.Until.Sub(now))
	case i.Idle:
		kind = "i"
	}
	if i.Ordered {
		ordered = "1"
	}
	var since time.Duration
	if i.Still() {
		since = max(0, now.Sub(i.Since))
	}
	reason := strings.ToValidUTF8(i.Reason[:min(len(i.Reason), reasonMost)], "")
	return []string{kind, decimal(since.Milliseconds()), decimal(until.Milliseconds()), ordered, decimal(i.Patience.Milliseconds()), reason}
}
