package console

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/treadlight/crawl/internal/clock/lifetime"
	"github.com/treadlight/crawl/internal/ratelimit"
)

const (
	// maxStreams is how many clients may listen at a time; each takes a connection, a goroutine and a queue.
	maxStreams = 32
	// streamQueue is how many events may wait for one client: a few for each refusal of hundreds of hosts.
	streamQueue = 256
	// heartbeat is the longest silence on a stream. Proxies cut streams that are silent for a minute, and a client that
	// has gone is noticed by it.
	heartbeat = 15 * time.Second
	// writeTimeLimit is how long one write may take. A client that reads nothing for so long is disconnected; when it
	// comes again, it is told how many events it missed.
	writeTimeLimit = 10 * time.Second
)

type numbered struct {
	n     uint64
	event ratelimit.Event
}

// streams carries events to the clients that listen. Sending does not block: an event that finds a queue full is left
// out there, and the gap in the numbers tells the client how many were.
type streams struct {
	life *lifetime.Lifetime // of the streams, which are not waited for

	mu     sync.Mutex // guards what follows
	n      uint64     // number of the last event
	queues map[chan numbered]struct{}
}

func newStreams() *streams {
	return &streams{life: lifetime.New(), queues: make(map[chan numbered]struct{})}
}

func (s *streams) send(e ratelimit.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n++
	for q := range s.queues {
		select {
		case q <- numbered{s.n, e}:
		default:
		}
	}
}

// join returns a queue of the events from now on, and the number of the last event before them. ok is false if too many
// clients listen, or if no event will come any more.
func (s *streams) join() (q chan numbered, last uint64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.life.Over() || len(s.queues) >= maxStreams {
		return nil, 0, false
	}
	q = make(chan numbered, streamQueue)
	s.queues[q] = struct{}{}
	return q, s.n, true
}

func (s *streams) leave(q chan numbered) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.queues, q)
}

// missed returns the number of the last event, if the queue is empty: the reader misses all events up to it that it has
// not seen.
func (s *streams) missed(q chan numbered) (last uint64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.n, len(q) == 0
}

func (s *streams) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.queues)
}

// events is the stream of the limiter's events, as server-sent events: "limiter" with an event and its number as id,
// and "lost" with how many are missing before the next.
func (c *Console) events(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	if r.Method == http.MethodHead {
		return // it would listen for ever and hear nothing
	}
	q, last, ok := c.streams.join()
	if !ok {
		w.Header().Set("Retry-After", "5")
		c.guard.refuseAndLog(w, r, refusal{reasonFull, http.StatusServiceUnavailable, "as many listen as may; close a page that does"})
		return
	}
	defer c.streams.leave(q)
	keepStream(r)
	// A number that is not yet reached is that of another process.
	if seen, err := strconv.ParseUint(r.Header.Get("Last-Event-ID"), 10, 64); err == nil {
		last = min(last, seen)
	}
	w.Header().Set("X-Accel-Buffering", "no") // nginx would buffer the stream
	s := &stream{c: c, w: w, ctl: http.NewResponseController(w), last: last}
	// The time to read a request is over in a moment, and would end the stream.
	if s.ctl.SetReadDeadline(time.Time{}) == nil && s.catchUp(q) && s.flush() {
		s.run(r, q)
	}
}

type stream struct {
	c    *Console
	w    io.Writer
	ctl  *http.ResponseController
	last uint64 // number of the last event that was sent or reported as lost
}

func (s *stream) run(r *http.Request, q chan numbered) {
	timer := s.c.cfg.Clock.NewTimer(heartbeat)
	defer timer.Stop()
	for ok := true; ok; {
		select {
		case e := <-q:
			ok = s.write(e) && (len(q) > 0 || s.flush())
		case <-timer.C():
			ok = s.catchUp(q) && s.say(": alive\n\n") && s.flush()
		case <-r.Context().Done():
			return
		case <-s.c.streams.life.Context().Done():
			for ok && len(q) > 0 {
				ok = s.write(<-q)
			}
			if ok && s.catchUp(q) && s.say("event: end\ndata: {}\n\n") {
				_ = s.flush() // the stream ends anyway
			}
			return
		}
		timer.Reset(heartbeat)
	}
}

func (s *stream) write(e numbered) bool {
	if !s.lost(e.n - 1) {
		return false
	}
	s.last = e.n
	data, err := json.Marshal(e.event)
	if err != nil { // an event is made of texts and numbers
		return s.lost(e.n)
	}
	return s.say("id: %d\nevent: limiter\ndata: %s\n\n", e.n, data)
}

func (s *stream) catchUp(q chan numbered) bool {
	upTo, empty := s.c.streams.missed(q)
	return !empty || s.lost(upTo)
}

// lost reports that the events up to a number were left out, if there are any.
func (s *stream) lost(upTo uint64) bool {
	if upTo <= s.last {
		return true
	}
	n := upTo - s.last
	s.last = upTo
	s.c.metrics.lost.Add(float64(n))
	return s.say("id: %d\nevent: lost\ndata: {\"lost\":%d}\n\n", upTo, n)
}

func (s *stream) say(format string, args ...any) bool {
	if err := s.ctl.SetWriteDeadline(s.c.cfg.Clock.Now().Add(writeTimeLimit)); err != nil {
		return false // a connection without deadlines could keep us for ever
	}
	_, err := fmt.Fprintf(s.w, format, args...)
	return err == nil
}

func (s *stream) flush() bool { return s.ctl.Flush() == nil }
