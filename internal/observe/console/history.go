package console

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/internal/ratelimit/breaker"
)

const (
	// sampleEvery is the time between two samples, as a page polls once a second.
	sampleEvery = time.Second
	// sampleTimes is the least ratio of the time between two samples to the time that one took, so that sampling takes
	// at most a fiftieth of the time.
	sampleTimes = 50
	// recentRoom is how many samples of the last minutes are kept: five minutes.
	recentRoom = 300
	// wholeRoom is how many samples of the whole crawl are kept, as many as a screen shows.
	wholeRoom = 256
	// maxTracks is how many hosts have a history. A full one takes 50 kB.
	maxTracks = 128
	// maxWatched is how many of them are sampled separately, each for watchTime after the last request of its page.
	maxWatched = 16
	watchTime  = time.Minute
	// trackEvents is how many events of a host are kept.
	trackEvents = 64
)

type ring[T any] struct {
	values []T
	next   int // the oldest, once it is full
}

func (r *ring[T]) add(v T, room int) {
	if len(r.values) < room {
		r.values = append(r.values, v)
		return
	}
	r.values[r.next] = v
	r.next = (r.next + 1) % room
}

func (r *ring[T]) list() []T {
	return append(slices.Clone(r.values[r.next:]), r.values[:r.next]...)
}

// series is a ring of the last values, and a thinned list of all values: when it is full, every second value is
// removed, and from then on every second new value is left out.
type series[T any] struct {
	recent ring[T]
	whole  []T
	stride int // one of so many values is kept in whole; zero means one
	seen   int
}

func (s *series[T]) add(v T) {
	s.recent.add(v, recentRoom)
	s.stride = max(s.stride, 1)
	if s.seen%s.stride == 0 {
		if len(s.whole) == wholeRoom {
			for i := range wholeRoom / 2 {
				s.whole[i] = s.whole[2*i]
			}
			s.whole = s.whole[:wholeRoom/2]
			s.stride *= 2
		}
		s.whole = append(s.whole, v)
	}
	s.seen++
}

// list is a copy, the oldest value first. The list of the whole ends with the last value.
func (s *series[T]) list(whole bool) []T {
	last := s.recent.list()
	if !whole || len(last) == 0 {
		return last
	}
	list := slices.Clone(s.whole)
	if (s.seen-1)%s.stride != 0 {
		list = append(list, last[len(last)-1])
	}
	return list
}

type crawlSample struct {
	at                      time.Time
	requests, pages, errors int64
	queued                  int64
	inFlight, waiting       int
	hosts, open, half       int
}

type hostSample struct {
	at                  time.Time
	asked               int // requests from the start on; negative if not known
	inFlight            int
	rate, limit         float32 // per second; no limit is zero
	avg, p95, errorRate float32 // two in milliseconds, and a share
	state               breaker.State
}

type track struct {
	samples series[hostSample]
	events  ring[ratelimit.Event]
	touched time.Time // when a value was last added
	watched time.Time // until when it is sampled separately
}

// history has the past of the crawl and of at most maxTracks hosts: first those whose pages are open, then those that
// have requests, then those with events.
type history struct {
	mu     sync.Mutex // guards what follows, and is held briefly
	crawl  series[crawlSample]
	tracks map[string]*track
}

func newHistory() *history { return &history{tracks: make(map[string]*track)} }

// event keeps an event of a host that has a history, or for which there is room.
func (h *history) event(e *ratelimit.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	names := e.Hosts
	if names == nil {
		names = []string{e.Domain}
	}
	for _, name := range names {
		t := h.tracks[name]
		if t == nil && len(h.tracks) < maxTracks {
			t = new(track)
			h.tracks[name] = t
		}
		if t != nil {
			t.events.add(*e, trackEvents)
			t.touched = e.Time
		}
	}
}

// trackLocked returns the history of a host, a new one if it has none. It is nil if there is no room because all are
// watched.
func (h *history) trackLocked(name string, now time.Time) *track {
	if t := h.tracks[name]; t != nil {
		return t
	}
	if len(h.tracks) >= maxTracks && !h.dropLocked(now) {
		return nil
	}
	t := &track{touched: now}
	h.tracks[name] = t
	return t
}

// dropLocked drops the history to which nothing was added for longest.
func (h *history) dropLocked(now time.Time) bool {
	oldest := ""
	for name, t := range h.tracks {
		if t.watched.After(now) || !t.touched.Before(now) {
			continue
		}
		if o := h.tracks[oldest]; o == nil || t.touched.Before(o.touched) {
			oldest = name
		}
	}
	if h.tracks[oldest] == nil {
		return false
	}
	delete(h.tracks, oldest)
	return true
}

// watch samples a host separately for a while, unless there are maxWatched others.
func (h *history) watch(name string, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.watchedLocked(now)) >= maxWatched && h.tracks[name] == nil {
		return
	}
	if t := h.trackLocked(name, now); t != nil {
		t.watched = now.Add(watchTime)
	}
}

// watchedLocked are the hosts that are sampled separately, at most maxWatched.
func (h *history) watchedLocked(now time.Time) []string {
	var names []string
	for name, t := range h.tracks {
		if t.watched.After(now) && len(names) < maxWatched {
			names = append(names, name)
		}
	}
	return names
}

func (h *history) of(name string, whole bool) (samples []hostSample, events []ratelimit.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if t := h.tracks[name]; t != nil {
		samples, events = t.samples.list(whole), t.events.list()
	}
	return samples, events
}

func (h *history) ofCrawl(whole bool) []crawlSample {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.crawl.list(whole)
}

func (c *Console) record(ctx context.Context) {
	for {
		begun := c.cfg.Clock.Now()
		c.sample()
		took := c.cfg.Clock.Now().Sub(begun)
		if clock.Sleep(ctx, c.cfg.Clock, max(sampleEvery, sampleTimes*took)) != nil {
			return
		}
	}
}

// sample adds the present state to the history. No lock is held while it looks at the crawl.
func (c *Console) sample() {
	s := c.sharedSnapshot()
	now := c.cfg.Clock.Now()
	own := make(map[string]hostSample)
	c.history.mu.Lock()
	watched := c.history.watchedLocked(now)
	c.history.mu.Unlock()
	for _, name := range watched {
		if k := c.crawl.Host(name); k.Limiter != nil {
			own[name] = hostSampleOf(now, k.Frontier, k.Limiter)
		}
	}
	queues := make(map[string]*frontier.HostState, len(s.Hosts))
	for i := range s.Hosts {
		queues[s.Hosts[i].Host] = &s.Hosts[i]
	}
	for i := range s.Limiter.Top {
		d := &s.Limiter.Top[i]
		if _, ok := own[d.Domain]; !ok {
			own[d.Domain] = hostSampleOf(now, queues[d.Domain], d)
		}
	}
	c.history.add(crawlSampleOf(now, &s), own)
	c.listing.forget(now.Add(-listTime))
}

func (h *history) add(m crawlSample, samples map[string]hostSample) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.crawl.add(m)
	for _, had := range []bool{true, false} { // first those that have one, so that none loses it to a newcomer of this moment
		for name, b := range samples {
			if (h.tracks[name] != nil) != had {
				continue
			}
			if t := h.trackLocked(name, m.at); t != nil {
				t.samples.add(b)
				t.touched = m.at
			}
		}
	}
}

func crawlSampleOf(now time.Time, s *state) crawlSample {
	return crawlSample{
		at: now, requests: s.Requests, pages: s.Pages, errors: s.Errors, queued: s.Frontier.Queued,
		inFlight: s.Limiter.InFlight, waiting: s.Limiter.Waiting,
		hosts: s.Limiter.Domains, open: s.Limiter.Open, half: s.Limiter.HalfOpen,
	}
}

func hostSampleOf(now time.Time, f *frontier.HostState, d *ratelimit.DomainSnapshot) hostSample {
	b := hostSample{
		at: now, asked: -1, inFlight: d.InFlight, state: d.State,
		rate: float32(d.FillRate), limit: float32(d.LimitRPS), avg: float32(d.AvgLatencyMS), p95: float32(d.P95LatencyMS), errorRate: float32(d.ErrorRate),
	}
	if f != nil {
		b.asked = f.Pages
	}
	return b
}
