package robots

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"time"

	"github.com/treadlight/crawl/internal/fetch"
	"github.com/treadlight/crawl/internal/web/canonical"
)

// Follow requests the robots.txt of an origin by ask, which makes one request, and follows its redirects. The result is
// never of kind Moved.
func Follow(origin string, ask func(at canonical.URL) Answer) Result {
	at, err := canonical.Parse(origin + "/robots.txt")
	if err != nil {
		return Result{Kind: Failed, Lasting: true, Reason: err.Error()}
	}
	for hops := 0; ; hops++ {
		answer := ask(at)
		answer.Hops = hops
		res := FromAnswer(answer)
		if res.Kind != Moved {
			return res
		}
		if at, err = at.Resolve(canonical.Location(res.Location)); err != nil {
			return res.Astray(err)
		}
	}
}

// AnswerOf returns what was answered to a request for robots.txt, and releases the response.
func AnswerOf(resp *fetch.Response, err error) Answer {
	a := Answer{Err: err}
	if resp != nil {
		a.Status, a.Body, a.Location = resp.Status, bytes.Clone(resp.Body), resp.Location
	}
	resp.Release()
	return a
}

// Astray is the result if the location of a result of kind Moved cannot be a URL, so that there is no robots.txt.
func (r *Result) Astray(err error) Result {
	return Result{Kind: Absent, Reason: "moved to " + r.Location + ": " + err.Error()}
}

func otherOrigin(origin string) string {
	if strings.HasPrefix(origin, "https:") {
		return "http://" + HostOf(origin)
	}
	return "https://" + HostOf(origin)
}

// HostOf returns the host of an origin as [canonical.URL.Host] does.
func HostOf(origin string) string {
	_, host, _ := strings.Cut(origin, "://")
	return host
}

// Pause returns the Crawl-delay of the host of an origin whose entry is e. Both schemes of a host are paced as one, so
// the longer delay of the two applies to both.
func (c *Cache) Pause(origin string, e Entry, now time.Time) time.Duration {
	return max(e.Rules.Pause(), c.Lookup(otherOrigin(origin), now).Rules.Pause())
}

// Source has the rules of origins: those in its cache, and others by a request. It is safe for concurrent use.
type Source struct {
	Cache *Cache
	Now   func() time.Time
	// Ask requests the robots.txt of an origin. It is called once at a time for each.
	Ask func(ctx context.Context, origin string) Result
	// Obey, if set, is called with the Crawl-delay of an origin whose file has arrived.
	Obey func(origin string, d time.Duration)

	mu     sync.Mutex
	asking map[string]chan struct{} // origins whose file is requested: at most as many as there are callers
}

// Get returns what is known of an origin, and requests it if that is due. One of the callers makes the request, and if
// its context ends another does. The error is that of ctx.
func (s *Source) Get(ctx context.Context, origin string) (Entry, error) {
	for ctx.Err() == nil {
		now := s.Now()
		e := s.Cache.Lookup(origin, now)
		if e.Due(now) {
			asked := s.request(ctx, origin)
			e = s.Cache.Lookup(origin, s.Now())
			switch {
			case asked && ctx.Err() != nil:
				continue
			case asked: // also without an answer: this caller has had its request
				return e, nil
			}
		}
		if e.State != Pending {
			return e, nil
		}
		s.mu.Lock()
		done := s.asking[origin]
		s.mu.Unlock()
		if done == nil {
			continue // the request has just ended
		}
		select {
		case <-done:
		case <-ctx.Done():
		}
	}
	return Entry{}, context.Cause(ctx)
}

func (s *Source) request(ctx context.Context, origin string) bool {
	s.mu.Lock()
	begun := s.Cache.Begin(origin, s.Now())
	if begun {
		if s.asking == nil {
			s.asking = make(map[string]chan struct{})
		}
		s.asking[origin] = make(chan struct{})
	}
	s.mu.Unlock()
	if !begun {
		return false
	}
	res := Result{Kind: NoAnswer, Reason: "the request for it was given up"}
	defer func() { // also if Ask panics
		now := s.Now()
		e := s.Cache.Answer(origin, now, res)
		if e.Rules != nil && s.Obey != nil {
			s.Obey(origin, s.Cache.Pause(origin, e, now))
		}
		s.mu.Lock()
		close(s.asking[origin])
		delete(s.asking, origin)
		s.mu.Unlock()
	}()
	if answer := s.Ask(ctx, origin); ctx.Err() == nil {
		res = answer
	}
	return true
}
