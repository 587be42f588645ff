package pipeline

// LoopRoom is how many pages may wait for a loop, so that Processing goes on while its body runs.
const LoopRoom = resultsRoom

// Loop has every page go to a channel, behind Handle. Who takes it from there ends it, by [Page.Done] or [Page.Drop], and
// goes on taking until Run has returned. It must not be called once Run was.
func (p *Pipeline) Loop(pages chan<- *Page) { p.cfg.loop = pages }

// turn is what is left to do of a page that is with a loop, when the worker that has read it is busy with others.
type turn struct {
	w *processor
	r *result
	f *fetched
}

// toLoop has a page wait for the loop, whose goroutine does the rest.
func (w *processor) toLoop(page *Page, r *result, f *fetched) {
	page.visit.turn = turn{w, r, f}
	w.turns.Add(1)
	w.p.cfg.loop <- page
}

// Late reports that the crawl has no more time for the page: it is to be dropped.
func (p *Page) Late() bool { return p.visit.turn.w.work.Err() != nil }

// Done ends a page that a loop has looked at. What it followed and emitted goes on with the record.
func (p *Page) Done() {
	t := p.over()
	p.visit.into(t.r)
	t.w.p.cfg.failedFor(t.r.rec)
	t.end(t.r)
}

// Drop ends a page that a loop has not looked at, or not to the end. With a state the next run asks for it again.
func (p *Page) Drop() {
	t := p.over()
	t.r.unhold(t.w.p)
	t.end(t.f.cutShort(t.w.p))
}

// over ends the page, which may be kept, without what is left to do of it.
func (p *Page) over() turn {
	p.end()
	t := p.visit.turn
	p.visit.turn = turn{}
	return t
}

func (t turn) end(r *result) {
	defer t.w.turns.Done()
	t.f.resp.Release()
	_ = t.w.deliver(r, t.f) // it fails if the crawl is given up
}
