package redis

import (
	"context"
	"errors"
	"sync"
	"time"
)

// drawMost and drawPart bound what a process draws of a job's pages at a time: so much, and
// so small a part of what is left. What a process that is killed has drawn is lost to the job.
const (
	drawMost = 256
	drawPart = 64
)

// maxPages is what pages are called among what is drawn on.
const maxPages = "max_pages"

// allowance is the pages that this process may ask for, of those of the whole job. Pages are
// drawn some at a time, ahead of their use, and given back when the store is closed.
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

// part is how many pages are drawn at a time.
func (a *allowance) part() int64 { return min(a.left/drawPart+1, drawMost) }

// Counted is whether the pages of the job are counted for all processes, as they are bounded, or were
// and may be again. Pages and More are for a job of which they are.
func (s *Store) Counted() bool { return s.pages != nil }

// Pages is how many pages this process may have asked for in all, now that it has asked for
// so many, and whether there will be no more: those of the job are used up. While there
// may be, More receives when it says otherwise.
func (s *Store) Pages(used int) (most int, last bool) {
	a := s.pages
	a.mu.Lock()
	defer a.mu.Unlock()
	a.used = int64(used)
	if !a.spent && a.drawn-a.used <= a.part()/2 {
		signal(a.bell)
	}
	return int(a.drawn), a.spent
}

// More receives when Pages may say otherwise than before.
func (s *Store) More() <-chan struct{} { return s.pages.more }

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // it will be heard
	}
}

// draw draws pages as they are wanted, until the store is closed or fails.
func (s *Store) draw() {
	a := s.pages
	for {
		select {
		case <-s.life.Done():
			return
		case <-a.bell:
		}
		a.mu.Lock()
		n := a.part()
		wanted := !a.spent && a.drawn-a.used <= n/2
		a.mu.Unlock()
		if !wanted {
			continue
		}
		if err := s.drawPages(s.life, n); err != nil {
			if s.life.Err() == nil {
				s.fail(err)
			}
			return
		}
		signal(a.more)
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

// drawPages draws n pages, or once the process leaves gives back what it has not used.
func (s *Store) drawPages(ctx context.Context, n int64) error {
	back := int64(0)
	a := s.pages
	a.trip.Lock()
	defer a.trip.Unlock()
	a.mu.Lock()
	if a.leaving {
		n, back = 0, a.drawn-a.used
	}
	if n <= 0 && back <= 0 {
		a.mu.Unlock()
		return nil
	}
	a.request++
	request, opened := a.request, a.opened
	a.mu.Unlock()
	reply, err := s.link.one(ctx, &call{script: scriptDraw, keys: []string{jobKey(s.job.name, "job"), jobKey(s.job.name, "drawn")}, args: s.args(
		s.worker, decimal(request), maxPages, decimal(s.cfg.MaxPages), decimal(n), decimal(back))})
	if err != nil {
		return err
	}
	if len(reply) < 2 {
		return errors.New("redis: draw: the reply cannot be read")
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.drewLocked(number(reply[0]), n, back, number(reply[1]), opened)
	return nil
}

// drewLocked takes in what was granted of n pages that were asked for, and how many are left. A
// reply that was under way when the bound was heard to be another may not know of that.
func (a *allowance) drewLocked(granted, n, back, left int64, opened int) {
	a.drawn, a.left = a.drawn+granted-back, left
	a.spent = left == 0 && granted < n && opened == a.opened
}

// giveBudgets gives back what was drawn and not used, and this process's share of what may be
// out at a time.
func (s *Store) giveBudgets(ctx context.Context) error {
	if s.pages != nil {
		s.pages.mu.Lock()
		s.pages.leaving = true
		s.pages.mu.Unlock()
		if err := s.drawPages(ctx, 0); err != nil {
			return err
		}
	}
	if s.slotted.Load() {
		_, err := s.link.one(ctx, s.slotsCall(0, 0, 0))
		return err
	}
	return nil
}

// Slots asks for a share of what all processes of the job may have out at a time, which is
// plan, for one that may have so many out until it hears the answer and could use so many
// after it. The share lasts until an
// instant; after that others may have it, and by then what is out has been cut off, as hosts
// of which no session is left are; in a cluster of which the job's own node is gone alone it is
// finished. What processes may have out never adds up to more than the plan, so one who comes
// waits until others have been told to have less, and have said that they heard it. With less
// than one for each that could use one they have them by turns.
func (s *Store) Slots(ctx context.Context, plan, held, want int) (share int, until time.Time, err error) {
	s.slotted.Store(true)
	sent := s.cfg.Clock.Now()
	c := s.slotsCall(plan, held, want)
	missing, err := s.link.try(ctx, []*call{c})
	if err == nil && len(missing) > 0 { // the script was not known
		_, err = s.link.try(ctx, missing)
	}
	if err = errors.Join(err, c.err); err != nil {
		return 0, time.Time{}, err
	}
	if len(c.reply) < 1 {
		return 0, time.Time{}, errors.New("redis: slots: the reply cannot be read")
	}
	return int(number(c.reply[0])), sent.Add(s.cfg.Lease - s.margin()), nil
}

func (s *Store) slotsCall(plan, held, want int) *call {
	return &call{script: scriptSlots, keys: []string{jobKey(s.job.name, "job"), jobKey(s.job.name, "slots")}, args: s.args(
		s.worker, decimal(s.cfg.Lease.Milliseconds()), decimal(int64(plan)), decimal(int64(held)), decimal(int64(want)))}
}

// Elapsed is how long ago the job was begun, by the server's clock, when the store was opened.
func (s *Store) Elapsed() time.Duration { return s.elapsed }

// measure reads how long ago the job was begun.
func (s *Store) measure(ctx context.Context) error {
	now, err := serverTime(ctx, s.link.Client, s.cfg.now)
	if err != nil {
		return err
	}
	s.elapsed = max(0, now.Sub(s.job.created))
	return nil
}
