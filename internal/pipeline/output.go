package pipeline

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/records/sink"
	"github.com/treadlight/crawl/internal/web/request"
	"github.com/treadlight/crawl/record"
)

const (
	// ackBatch bounds the records that are written between two flushes, and so the acknowledgements that wait for a
	// flush.
	ackBatch = 256
	// ackLinks bounds the links of such a batch, not counting those of its last page; they take some 5 MB.
	ackLinks = 1 << 14
	// resultsRoom is the capacity of the results channel, with which Processing can continue while Output writes. Each
	// page in it may have thousands of links.
	resultsRoom = 16
	// maxHeld bounds the bytes of bodies and exchanges in records that wait for Output; each goroutine of Processing may
	// hold one more. Without it a few dozen pages of the largest size would wait there. Pages of usual size never reach
	// it.
	maxHeld = 64 << 20
)

type found struct {
	item   frontier.Item
	fp     uint64
	budget int  // see scope.Budgets.Of
	asked  bool // requested by a handler
}

// result is what Processing sends to Output. Discovery sends it, too, for URLs that were refused without a fetch. A
// result without lease and record has a part of the links of a later one.
type result struct {
	lease *frontier.Lease
	rec   *record.Record
	outward

	visit     *frontier.Visit // what the state keeps of the visit; complete once the record is written; nil without a state
	unindexed bool            // not written to sinks and archives; see SkipNoindex
	dropped   bool            // has the lease alone: the page was cut off, and its URL is queued again
	aside     bool            // written to Archives alone, and not acknowledged
	quiet     bool            // written to Archives alone, as it is not worth a record; acknowledged
	held      int64           // bytes that count for maxHeld
	trip      *Trip           // nil if it is not traced
}

type outward struct {
	links []found
	skips []Skip // passed to OnSkip once the record is written
}

// written acknowledges results that were flushed together, without their records, and has the positions of the sinks. A
// result without a lease has links whose record is yet to come.
type written struct {
	results   []*result
	positions []frontier.Position
}

// output writes records until Processing and Discovery have no more. Records that are ready together are flushed and
// acknowledged together. No record is begun once another process owns the state: that process truncates the files to
// the positions it knows, and continues there. When work ends, what is not written yet is dropped; without a state,
// what cannot be written within Grace is.
func (p *Pipeline) output(ctx, work context.Context) error {
	var took time.Duration // for writing the last record
	clk, sinks := p.cfg.Clock, slices.Concat(p.cfg.Sinks, p.cfg.Archives)
	for r := range p.results {
		if p.cfg.State != nil {
			if err := p.cfg.State.Owned(); err != nil {
				return fmt.Errorf("keep the state of the crawl: %w", err)
			}
		}
		begun := clk.Now()
		from := begun // when the record began
		batch := written{results: make([]*result, 0, 1+len(p.results))}
		links := 0
		for n := 1; r != nil; n++ {
			late := p.tooLate(ctx, work, from.Add(took))
			if late {
				r.unhold(p)
				*r = result{lease: r.lease, dropped: r.lease != nil, aside: r.aside}
			}
			if err := p.write(r); err != nil {
				return err
			}
			for _, s := range r.skips {
				p.cfg.OnSkip(s)
			}
			r.skips = nil
			if now := clk.Now(); !late {
				took, from = now.Sub(from), now
			}
			if !r.aside {
				r.rec, r.trip = nil, nil // frees memory: they may be large
				batch.results = append(batch.results, r)
			}
			links += len(r.links)
			r = nil
			if n < ackBatch && links < ackLinks {
				select {
				case r = <-p.results: // nil when closed
				default:
				}
			}
		}
		for _, s := range sinks {
			if err := s.Flush(); err != nil {
				return fmt.Errorf("write output: %w", err)
			}
		}
		if p.cfg.Meter.On() {
			p.cfg.Meter.Took(OutputBatch, clk.Since(begun))
		}
		if p.cfg.State != nil {
			batch.positions = positions(sinks)
		}
		select {
		case p.acks <- batch:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// tooLate reports whether a record is to be dropped that would be written by an instant.
func (p *Pipeline) tooLate(ctx, work context.Context, written time.Time) bool {
	if work.Err() == nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cfg.State != nil || ctx.Err() != nil || written.After(p.status.until)
}

func (p *Pipeline) write(r *result) error {
	if r.rec == nil {
		return nil // links alone, or a dropped page
	}
	defer r.unhold(p)
	if p.cfg.Job != "" {
		asked := ""
		if r.lease != nil {
			asked = r.lease.Request
		}
		r.rec.ID = sink.ID(p.cfg.Job, r.rec.Kind, r.rec.URL+request.Identity(asked))
	}
	if t := r.trip; t != nil {
		t.Write.From = p.cfg.Clock.Now()
		defer func() {
			t.Write.Til, t.Final = p.cfg.Clock.Now(), true
			if t.Fate = string(fateProcessed); r.rec.Error != nil && t.Ended.IsZero() {
				t.Fate = r.rec.Error.Class // refused without a request
			}
			p.cfg.Tracer.End(t)
		}()
	}
	if err := writeTo(p.cfg.Archives, r, "archive"); err != nil || r.aside {
		return err
	}
	if p.cfg.State != nil {
		r.store()
	}
	if r.quiet {
		return nil
	}
	if err := writeTo(p.cfg.Sinks, r, "output"); err != nil {
		return err
	}
	p.stats.record(r.rec, r.unindexed)
	p.recent.Note(r.rec)
	return nil
}

func writeTo(sinks []record.Sink, r *result, what string) error {
	if r.unindexed {
		return nil
	}
	for _, s := range sinks {
		if err := writeItems(s, r.rec); err != nil {
			return fmt.Errorf("write %s: %w", what, err)
		}
		if err := s.Write(r.rec); err != nil {
			return fmt.Errorf("write %s: %w", what, err)
		}
	}
	return nil
}

func writeItems(s record.Sink, rec *record.Record) error {
	to, ok := s.(record.ItemSink)
	if !ok {
		return nil
	}
	for _, item := range rec.Items {
		if !to.Takes(item.Value) {
			continue
		}
		if err := to.WriteItem(rec, item); err != nil {
			return err
		}
	}
	return nil
}

func positions(sinks []record.Sink) (all []frontier.Position) {
	for _, s := range sinks {
		if d, ok := s.(record.Durable); ok {
			all = append(all, frontier.Position(d.Mark()))
		}
	}
	return all
}

// hold waits until there is room for the bytes that a record carries. It fails only if ctx ends. A record larger than
// all of the room waits until it has it to itself.
func (w *processor) hold(ctx context.Context, r *result) error {
	n := len(r.rec.Body) + len(r.rec.BodyBase64)
	if x := r.rec.Exchange; x != nil {
		n += len(x.Request) + len(x.Response) + len(x.Payload)
	}
	if n == 0 {
		return nil
	}
	want := min(int64(n), maxHeld)
	if err := w.p.bodies.Acquire(ctx, want); err != nil {
		return err
	}
	r.held = want
	return nil
}

func (r *result) unhold(p *Pipeline) {
	if r.held > 0 {
		p.bodies.Release(r.held)
		r.held = 0
	}
}
