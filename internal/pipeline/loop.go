package pipeline

// LoopRoom is how many pages may wait for a loop, so that Processing can continue while the loop's body runs.
const LoopRoom = resultsRoom

// Loop sends every page to a channel, after Handle. The receiver ends each page with [Page.Done] or [Page.Drop], and
// continues to receive until Run has returned. Loop must not be called after Run.
func (p *Pipeline) Loop(pages chan<- *Page) { p.cfg.loop = pages }

// turn is the rest of the work on a page that is with a loop, as the worker that read the page has gone on to others.
type turn struct {
	w *processor
	r *result
	f *fetched
}

// toLoop sends a page to the loop, whose goroutine does the rest of the work on it.
func (w *processor) toLoop(page *Page, r *result, f *fetched) {
	page.visit.turn = turn{w, r, f}
	w.turns.Add(1)
	w.p.cfg.loop <- page
}

// Late reports whether the crawl has no time left for the page, so that it has to be dropped.
func (p *Page) Late() bool { return p.visit.turn.w.work.Err() != nil }

// Done ends a page that a loop has finished. The links that it followed and the items that it emitted go on with the
// record.
func (p *Page) Done() {
	t := p.over()
	p.visit.into(t.r)
	t.w.p.cfg.failedFor(t.r.rec)
	t.end(t.r)
}

// Drop ends a page that a loop has not seen, or not finished. With a state the next run requests it again.
func (p *Page) Drop() {
	t := p.over()
	t.r.unhold(t.w.p)
	t.end(t.f.cutShort(t.w.p))
}

// over ends the page and returns the rest of its work. The page, which the program may keep, no longer refers to it.
func (p *Page) over() turn {
	p.end()
	t := p.visit.turn
	p.visit.turn = turn{}
	return t
}

func (t turn) end(r *result) {
	defer t.w.turns.Done()
	t.f.resp.Release()
	_ = t.w.deliver(r, t.f) // fails only if the context of the crawl has ended
}
