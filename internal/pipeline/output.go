package pipeline

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/records/sink"
)

// ackBatch bounds the records written between two flushes, and so the acknowledgements
// that wait for one.
const ackBatch = 256

// ackLinks bounds the links of such a batch, but for those of its last page: some 5 MB.
const ackLinks = 1 << 14

// resultsRoom is for Processing to go on while Output writes. Each page in it may hold
// thousands of links.
const resultsRoom = 16

// output writes records until Processing and Discovery have no more. Records that are
// there together are flushed, and acknowledged, together. None is begun once the state is another's:
// who has it cuts the files back to where it knows of, and goes on there. When work ends what
// is not written yet is dropped; without a state what there is no time for within Grace.
func (p *Pipeline) output(ctx, work context.Context) error {
	var took time.Duration // by the last record that was written
	for r := range p.results {
		if p.cfg.State != nil {
			if err := p.cfg.State.Owned(); err != nil {
				return fmt.Errorf("keep the state of the crawl: %w", err)
			}
		}
		begun := p.measureFrom()
		acks := make([]ack, 0, 1+len(p.results))
		links := 0
		for n := 1; r != nil; n++ {
			from := p.cfg.Clock.Now()
			late := p.tooLate(ctx, work, from.Add(took))
			if late {
				p.bodies.release(r)
				*r = result{lease: r.lease, dropped: r.lease != nil, aside: r.aside}
			}
			if err := p.write(r); err != nil {
				return err
			}
			if !late {
				took = p.cfg.Clock.Since(from)
			}
			if !r.aside {
				acks = append(acks, ack{lease: r.lease, links: r.links, absent: r.quiet, dropped: r.dropped, visit: r.visit})
			}
			links += len(r.links)
			r = p.moreResults(n, links)
		}
		for _, s := range slices.Concat(p.cfg.Sinks, p.cfg.Archives) {
			if err := s.Flush(); err != nil {
				return fmt.Errorf("write output: %w", err)
			}
		}
		if !begun.IsZero() {
			p.cfg.Meter.Took(OutputBatch, p.cfg.Clock.Since(begun))
		}
		select {
		case p.acks <- written{acks, p.positions()}:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// tooLate reports whether a record is to be dropped that would be written at an instant.
func (p *Pipeline) tooLate(ctx, work context.Context, written time.Time) bool {
	if work.Err() == nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cfg.State != nil || ctx.Err() != nil || written.After(p.until)
}

// measureFrom is now if anybody measures, and zero otherwise.
func (p *Pipeline) measureFrom() (now time.Time) {
	if p.cfg.Meter.On() {
		now = p.cfg.Clock.Now()
	}
	return now
}

// moreResults is a result that is already there, or nil.
func (p *Pipeline) moreResults(n, links int) *result {
	if n >= ackBatch || links >= ackLinks {
		return nil
	}
	select {
	case r := <-p.results: // nil when closed
		return r
	default:
		return nil
	}
}

func (p *Pipeline) write(r *result) error {
	if r.rec == nil {
		return nil // links alone, or a page that was dropped
	}
	defer p.bodies.release(r)
	if p.cfg.Job != "" {
		r.rec.ID = sink.ID(p.cfg.Job, r.rec.Kind, r.rec.URL)
	}
	defer p.wrote(r, p.tracedFrom(r.trip))
	for _, s := range p.cfg.Archives {
		if r.unindexed {
			break
		}
		if err := s.Write(r.rec); err != nil {
			return fmt.Errorf("write archive: %w", err)
		}
	}
	if r.aside {
		return nil
	}
	if p.cfg.State != nil {
		r.visit = r.stored()
	}
	if r.quiet {
		return nil
	}
	if r.unindexed {
		p.stats.unindexed.Add(1)
	}
	for _, s := range p.cfg.Sinks {
		if r.unindexed {
			break
		}
		if err := s.Write(r.rec); err != nil {
			return fmt.Errorf("write output: %w", err)
		}
	}
	p.stats.record(r.rec)
	p.recent.note(r.rec)
	return nil
}

// visitOf is what a state keeps of a record.
func visitOf(rec *sink.Record) frontier.Visit {
	v := frontier.Visit{At: rec.FetchedAt, Status: rec.Status, Bytes: rec.Bytes}
	if rec.Error != nil {
		v.Class = rec.Error.Class
	}
	return v
}

// positions is how far the sinks are that can be cut back.
func (p *Pipeline) positions() []frontier.Position {
	if p.cfg.State == nil {
		return nil
	}
	var all []frontier.Position
	for _, s := range slices.Concat(p.cfg.Sinks, p.cfg.Archives) {
		if d, ok := s.(sink.Durable); ok {
			m := d.Mark()
			all = append(all, frontier.Position{Path: m.Path, Format: string(m.Format), Bytes: m.Bytes, Records: m.Records})
		}
	}
	return all
}
