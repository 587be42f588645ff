package redis

import (
	"context"
	"sync"
	"time"
)

const (
	// drawMost and drawPart bound a draw of pages: so many, and such a part of what is left. A killed process loses
	// its draw.
	drawMost, drawPart = 256, 64
	// maxPages and maxTime are what the bounds of a job are called among its terms.
	maxPages, maxTime = "max_pages", "max_time"
)

// allowance is the pages that this process may ask for, drawn ahead and given back at Close.
type allowance struct {
	bell chan struct{} // holds one: more are wanted
	more chan struct{} // holds one: there is news

	trip sync.Mutex // held while pages are drawn or given back; taken before mu

	mu      sync.Mutex // guards what follows
	leaving bool       // nothing more is drawn, and what is left is given back
	drawn   int64
	used    int64
	left    int64 // of the job, as far as is known
	spent   bool  // nothing was left when it was drawn last
	opened  int   // how often the bound was heard to be another
	request int64
}

func newAllowance(plan int64) *allowance {
	return &allowance{bell: make(chan struct{}, 1), more: make(chan struct{}, 1), left: plan}
}

// wantsLocked is how many pages are to be drawn now; zero: none.
func (a *allowance) wantsLocked() int64 {
	n := min(a.left/drawPart+1, drawMost)
	if a.spent || a.leaving || a.drawn-a.used > n/2 {
		return 0
	}
	return n
}

// Counted reports whether the job counts its pages, or may again. Pages and More need that.
func (s *Store) Counted() bool { return s.pages != nil }

// Pages is how many pages this process may have asked for in all, after used, and whether that is final. Until then
// More receives changes.
func (s *Store) Pages(used int) (most int, last bool) {
	a := s.pages
	a.mu.Lock()
	defer a.mu.Unlock()
	a.used = int64(used)
	if a.wantsLocked() > 0 {
		signal(a.bell)
	}
	return int(a.drawn), a.spent
}

// More receives when Pages may say otherwise than before.
func (s *Store) More() <-chan struct{} { return s.pages.more }

// draw draws pages as they are wanted, until the store is closed or fails.
func (s *Store) draw() {
	for {
		select {
		case <-s.life.Done():
			return
		case <-s.pages.bell:
		}
		if err := s.drawPages(s.life); err != nil {
			if s.life.Err() == nil {
				s.fail(err)
			}
			return
		}
		signal(s.pages.more)
	}
}

// reopen has more be drawn though nothing was left: the job may have more now.
func (a *allowance) reopen() {
	a.mu.Lock()
	a.spent = false
	a.opened++
	a.mu.Unlock()
	signal(a.bell)
	signal(a.more)
}

// drawPages draws the pages that are wanted, or once the process leaves gives back what it has not used.
func (s *Store) drawPages(ctx context.Context) error {
	a := s.pages
	a.trip.Lock()
	defer a.trip.Unlock()
	a.mu.Lock()
	n, back := a.wantsLocked(), int64(0)
	if a.leaving {
		back = a.drawn - a.used
	}
	if n <= 0 && back <= 0 {
		a.mu.Unlock()
		return nil
	}
	a.request++
	request, opened := a.request, a.opened
	a.mu.Unlock()
	c := &call{script: scriptDraw, keys: []string{jobKey(s.job.name, "job"), jobKey(s.job.name, "drawn")}, args: s.args(
		s.worker, decimal(request), maxPages, decimal(s.cfg.MaxPages), decimal(n), decimal(back))}
	if err := s.link.run(ctx, []*call{c}); err != nil {
		return err
	}
	reply, err := c.parts(2)
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.drewLocked(number(reply[0]), n, back, number(reply[1]), opened)
	return nil
}

// drewLocked takes in a grant of n pages, and how many are left. A reply under way may not know of a changed bound.
func (a *allowance) drewLocked(granted, n, back, left int64, opened int) {
	a.drawn, a.left = a.drawn+granted-back, left
	a.spent = left == 0 && granted < n && opened == a.opened
}

// giveBudgets gives back what was drawn and not used, and this process's share of what may be out at a time.
func (s *Store) giveBudgets(ctx context.Context) error {
	if s.pages != nil {
		s.pages.mu.Lock()
		s.pages.leaving = true
		s.pages.mu.Unlock()
		if err := s.drawPages(ctx); err != nil {
			return err
		}
	}
	if s.slotted.Load() {
		_, err := s.link.one(ctx, s.slotsCall(0, 0, 0))
		return err
	}
	return nil
}

// Slots asks for a share of plan, the requests that all processes may have in flight; this one may have held until the
// answer, and could use want. The share lasts until an instant, at which requests beyond it have been cut off, except
// in a cluster that lost only the job's own node. Shares never add up to more than the plan: a new process waits until
// others have acknowledged less. With less than one each, processes take turns.
func (s *Store) Slots(ctx context.Context, plan, held, want int) (share int, until time.Time, err error) {
	s.slotted.Store(true)
	until = s.cfg.Clock.Now().Add(s.cfg.Lease - s.margin())
	c := s.slotsCall(plan, held, want)
	if err := s.link.try(ctx, []*call{c}); err != nil {
		return 0, time.Time{}, err
	}
	reply, err := c.parts(1)
	if err != nil {
		return 0, time.Time{}, err
	}
	return int(number(reply[0])), until, nil
}

func (s *Store) slotsCall(plan, held, want int) *call {
	return &call{script: scriptSlots, keys: []string{jobKey(s.job.name, "job"), jobKey(s.job.name, "slots")}, args: s.args(
		s.worker, millis(s.cfg.Lease), decimal(plan), decimal(held), decimal(want))}
}
