package resilience

import "sync"

// hedgeWork counts the calls and goroutines of a hedge, so that Close can wait for them.
type hedgeWork struct {
	mu     sync.Mutex // guards what follows
	stats  HedgeStatistics
	active int           // calls of Execute and goroutines
	ended  chan struct{} // closed when nothing is active after close; nil before it
}

// enter counts a call, unless the hedge is closed.
func (w *hedgeWork) enter() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended != nil {
		return false
	}
	w.active++
	w.stats.Calls++
	return true
}

// begin counts what belongs to a call, unless nothing of that is left after close.
func (w *hedgeWork) begin() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.active == 0 && w.ended != nil {
		return false
	}
	w.active++
	return true
}

// leave counts one out. Nothing can come after the last.
func (w *hedgeWork) leave() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.active--; w.active == 0 && w.ended != nil {
		close(w.ended)
	}
}

// spawn runs fn on a goroutine that is counted. Who calls it is counted itself.
func (w *hedgeWork) spawn(fn func()) {
	w.mu.Lock()
	w.active++
	w.stats.Running++
	w.mu.Unlock()
	go func() {
		defer func() {
			w.mu.Lock()
			w.stats.Running--
			w.mu.Unlock()
			w.leave()
		}()
		fn()
	}()
}

func (w *hedgeWork) count(total *uint64) {
	w.mu.Lock()
	*total++
	w.mu.Unlock()
}

func (w *hedgeWork) statistics() HedgeStatistics {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stats
}

// close refuses later calls and returns when nothing is active any more.
func (w *hedgeWork) close() {
	w.mu.Lock()
	if w.ended == nil {
		w.ended = make(chan struct{})
		if w.active == 0 {
			close(w.ended)
		}
	}
	ended := w.ended
	w.mu.Unlock()
	<-ended
}
