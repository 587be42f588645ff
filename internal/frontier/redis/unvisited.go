package redis

import (
	"context"
	"strings"
)

// That nothing could be asked for, as no robots.txt can be had, is said of the whole job: one
// process may have all the hosts of which that is so, and another those that answer. What each
// finds is noted with the job before the URL of which it was found counts as done; so whoever
// finds the job complete reads there what was true of all of it. So it is with whether any host
// has answered at all.

// What an opNote tells beside a reason.
const (
	noteVisited  = 1
	noteAnswered = 2
)

// Answered notes with the job that a host has answered to a request, if only to one for its
// robots.txt. It is quick.
func (s *Store) Answered() { s.tell(op{kind: opNote, n: noteAnswered}) }

// Visited notes with the job that a host has answered to a URL. It is quick.
func (s *Store) Visited() { s.tell(op{kind: opNote, n: noteVisited}) }

// Unruled notes with the job that a URL was given up as its robots.txt cannot be had, and why.
// The first reason of all processes stays. It is quick.
func (s *Store) Unruled(reason string) {
	if s.unruled.Swap(true) {
		return // it is there, or on its way
	}
	reason = strings.ToValidUTF8(reason[:min(len(reason), reasonMost)], "")
	s.tell(op{kind: opNote, text: reason})
}

// Unvisited is why no process could ask for any URL of the job, as of when this one has found the
// job complete; empty: one could, or nothing was to be asked for.
func (s *Store) Unvisited() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.unvisited
}

// Unanswered is whether no process was answered by any host, as of when this one has found the
// job complete; false before.
func (s *Store) Unanswered() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.unanswered
}

// note stores what all are to know.
func (s *Store) note(ctx context.Context, ops []op) error {
	visited, answered, reason := "0", "0", ""
	for _, o := range ops {
		switch {
		case o.n == noteVisited:
			visited = "1"
		case o.n == noteAnswered:
			answered = "1"
		case reason == "":
			reason = o.text
		}
	}
	_, err := s.link.one(ctx, &call{script: scriptNote, keys: []string{jobKey(s.job.name, "job")}, args: s.args(visited, reason, answered)})
	return err
}

// hearUnvisited reads what was noted of a job that is complete.
func (s *Store) hearUnvisited(ctx context.Context) error {
	j, err := findJob(ctx, s.link.Client, s.job.name)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unvisited, s.unanswered = j.unvisited(), !j.answered
	return nil
}

// unvisited is why no URL was visited; empty: one was, or there was no reason.
func (j *job) unvisited() string {
	if j.visited {
		return ""
	}
	return j.unruled
}
