package redis

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// maxTime is what the bound of a job's time is called among its terms.
const maxTime = "max_time"

// Bounds are those of a job as a whole that an operator may change while it is there. One that
// was set is the job's from then on, whatever a process that joins was given.
type Bounds struct {
	// Pages of all processes together. Zero means no bound; nil means that nobody has changed it.
	Pages *int64
	// Time since the job was made. Zero means no bound; nil means that nobody has changed it.
	Time *time.Duration
}

// ErrUncounted is that a bound of pages is wanted of processes that do not count them.
var ErrUncounted = errors.New("its processes may not count their pages, as it has no max_pages: drain the job, set it, and begin them again")

// bounds are those that operators have set. What cannot be read was not stored by us, and is
// left out.
func (j *job) bounds() (b Bounds) {
	if j.set[maxPages] {
		if n, err := strconv.ParseInt(j.terms[maxPages], 10, 64); err == nil && n >= 0 {
			b.Pages = &n
		}
	}
	if j.set[maxTime] {
		if d, err := time.ParseDuration(j.terms[maxTime]); err == nil && d >= 0 {
			b.Time = &d
		}
	}
	return b
}

// hearBounds tells of bounds that were changed, by how often they were.
func (s *Store) hearBounds(ctx context.Context, changes int64) error {
	if changes == s.changes {
		return nil
	}
	j, err := findJob(ctx, s.link.Client, s.job.name)
	if err != nil {
		return err
	}
	b := j.bounds()
	s.bounds = b
	if s.pages != nil && b.Pages != nil {
		s.pages.reopen()
	}
	if s.cfg.OnBounds != nil {
		s.cfg.OnBounds(b)
	}
	s.changes = changes
	return nil
}

// plan is how many pages the job has when the store is opened; zero: there is no bound.
func (s *Store) plan() int64 {
	if s.bounds.Pages != nil {
		return *s.bounds.Pages
	}
	return s.cfg.MaxPages
}

// spanText leaves out the zero minutes and seconds of time.Duration's own form, as settings are
// written: 5m, not 5m0s.
func spanText(d time.Duration) string {
	text := d.String()
	for _, zero := range []struct{ end, left string }{{"m0s", "m"}, {"h0m", "h"}, {"0s", "0"}} {
		if rest, ok := strings.CutSuffix(text, zero.end); ok && (zero.left != "0" || rest == "") {
			text = rest + zero.left
		}
	}
	return text
}

// Set changes bounds of the job, and returns what they were by their terms; empty: there was
// none. Processes hear of it within a third of their leases. The error is [ErrUncounted] for a
// bound of pages where there never was one, while a process is there; of what was done before every
// URL counts as a page then.
func (f *Fleet) Set(ctx context.Context, b Bounds) (before map[string]string, err error) {
	values := map[string]string{}
	if b.Pages != nil {
		values[maxPages] = decimal(*b.Pages)
	}
	if b.Time != nil {
		values[maxTime] = spanText(*b.Time)
	}
	if (b.Pages != nil && *b.Pages < 0) || (b.Time != nil && *b.Time < 0) {
		return nil, errors.New("redis: a bound is below zero: want zero for none, or more")
	}
	t, err := tallyOf(ctx, f.client, f.job)
	if err != nil {
		return nil, f.explain(ctx, err)
	}
	args := []string{"0", f.job.id, decimal(t.done)}
	terms := slices.Sorted(maps.Keys(values))
	for _, term := range terms {
		args = append(args, term, values[term])
	}
	keys := []string{jobKey(f.job.name, "job"), jobKey(f.job.name, "workers"), jobKey(f.job.name, "drawn")}
	was, err := f.client.Do(ctx, f.client.B().Eval().Script(scriptSet.text).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build()).AsStrSlice()
	switch {
	case err != nil && strings.Contains(err.Error(), "UNCOUNTED"):
		return nil, ErrUncounted
	case err != nil && strings.Contains(err.Error(), "NOJOB"):
		return nil, fmt.Errorf("redis: %w", ErrNoJob)
	case err != nil:
		return nil, fmt.Errorf("redis: %w", said(err))
	}
	before = make(map[string]string, len(terms))
	for i, term := range terms {
		before[term] = was[i]
	}
	return before, nil
}
