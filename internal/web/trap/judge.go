package trap

import (
	"math"
	"sync"
	"sync/atomic"

	"github.com/treadlight/crawl/internal/web/canonical"
	"github.com/treadlight/crawl/internal/web/neardup"
)

// Judge judges the URLs of a crawl. Build it with New.
type Judge struct {
	cfg Config

	large   atomic.Int32 // hosts that are judged by their pages
	left    atomic.Int32 // patterns that were left
	trying  atomic.Int32 // patterns whose trial is on
	learned atomic.Int32 // parameters that hold session ids

	mu       sync.Mutex     // guards what follows
	hosts    map[uint64]int // pages that were visited, until there are more than Config.After
	patterns map[uint64]*pattern
	trials   []*pattern // those with a trial, the oldest first
	sessions sessions
	far      [1 << farBits]uint16 // URLs with a far date, by a hash of their pattern
}

// farBits is for 16,384 counters, which patterns share: two of a hundred that have far dates
// share one once in three crawls, and then have one budget.
const farBits = 14

// New builds a Judge. The error names the field that is wrong.
func New(cfg Config) (*Judge, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Judge{cfg: cfg, hosts: make(map[uint64]int), patterns: make(map[uint64]*pattern), sessions: newSessions()}, nil
}

// Link judges a URL that a page links to, in that year. A URL that the user gave, or the
// site itself in its sitemap, is not asked about here but by [Judge.Queued] alone, which
// goes by proof. Link changes nothing.
func (j *Judge) Link(u canonical.URL, thisYear int) Reason {
	if why := j.lone(u); why != None {
		return why
	}
	if j.large.Load() == 0 {
		return None
	}
	if year, _ := date(u.Path()); far(year, thisYear) && j.farFrom(u) {
		return Calendar
	}
	return j.learnedOf(u, false)
}

// farFrom reports whether a host is judged by its pages, and all URLs with far dates were
// had of the pattern.
func (j *Judge) farFrom(u canonical.URL) bool {
	i := j.of(u).keys[byNames] >> (64 - farBits)
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.hosts[j.host(u)] > j.cfg.After && int(j.far[i]) >= j.cfg.MaxFar
}

// Accept takes in that a URL, which Link let pass, was new and is to be visited. It was
// found on the page at from, which may be zero.
func (j *Judge) Accept(from, u canonical.URL, thisYear int) {
	if j.large.Load() == 0 {
		return
	}
	year, _ := date(u.Path())
	s := j.of(u)
	j.mu.Lock()
	defer j.mu.Unlock()
	if i := s.keys[byNames] >> (64 - farBits); far(year, thisYear) && j.far[i] < math.MaxUint16 {
		j.far[i]++
	}
	if j.learned.Load() > 0 {
		j.sessions.accept(u, j.cfg.Key)
	}
	for _, key := range s.keys {
		if p := j.patterns[key]; p != nil {
			p.grown++
		}
	}
	if j.trying.Load() > 0 && !from.IsZero() {
		j.credit(from, &s)
	}
}

// credit lets a page that leads to new URLs of other patterns count as fresh for its own: an
// index may have nothing to say by itself.
func (j *Judge) credit(from canonical.URL, to *shape) {
	s := j.of(from)
	for l := range levels {
		if s.keys[l] == 0 || s.keys[l] == to.keys[l] {
			continue
		}
		if p := j.patterns[s.keys[l]]; p != nil && p.trying {
			p.trial.score = max(0, p.trial.score-freshWeight)
		}
	}
}

// Refuse takes in that a URL is new and not to be followed for what [Judge.Link] said, and
// reports whether it may pass all the same, to see whether its pattern is still what it was.
func (j *Judge) Refuse(u canonical.URL) (pass bool) {
	if j.left.Load() == 0 {
		return false
	}
	s := j.of(u)
	j.mu.Lock()
	defer j.mu.Unlock()
	p := j.leftLocked(&s)
	return p != nil && p.probe(u)
}

// Queued judges a URL that is to be visited now: what is known may be more than when it was
// accepted. It counts the refusal, and lets a URL of a pattern that was left pass now and
// then.
func (j *Judge) Queued(u canonical.URL) Reason { return j.learnedOf(u, true) }

// learnedOf judges by what pages have taught. With next the URL is the next to be visited.
func (j *Judge) learnedOf(u canonical.URL, next bool) Reason {
	left, learned := j.left.Load() > 0, j.learned.Load() > 0
	if !left && !learned {
		return None
	}
	s := j.of(u)
	j.mu.Lock()
	defer j.mu.Unlock()
	if learned && j.sessions.known(u, j.cfg.Key, next) {
		return Sessions
	}
	p := j.leftLocked(&s)
	if p == nil || next && p.probe(u) {
		return None
	}
	return p.why
}

// leftLocked is the narrowest pattern of a URL that was left; nil: none was.
func (j *Judge) leftLocked(s *shape) *pattern {
	for _, key := range s.keys {
		if p := j.patterns[key]; p != nil && p.why != None {
			return p
		}
	}
	return nil
}

// Look is what [Judge.Visit] has seen of a page, for [Judge.Learn].
type Look struct {
	// Read says that the text of the page is to be read.
	Read bool

	session  bool // it may tell whether a part of the URL is a session id
	shape    shape
	newTitle [levels]bool
}

// Visit takes in that a page of u was had, with that title.
func (j *Judge) Visit(u canonical.URL, title string) (look Look) {
	if !j.enough(u) || j.cfg.MaxStale == noBound {
		return look
	}
	look.shape = j.of(u)
	name := titleHash(title)
	j.mu.Lock()
	defer j.mu.Unlock()
	look.session = j.sessions.open(u, j.cfg.Key)
	look.Read = look.session
	for l := range levels {
		key := look.shape.keys[l]
		if key == 0 {
			continue
		}
		p := j.visitLocked(key, l)
		var read bool
		if read, look.newTitle[l] = p.wants(name); read {
			look.Read = true
		}
		if l == byNames && p.proven {
			break
		}
	}
	return look
}

// Learn takes in what a page of u says. Nothing says that there is nothing.
func (j *Judge) Learn(u canonical.URL, look *Look, text *neardup.Text, nothing bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if look.session && j.sessions.learn(u, j.cfg.Key, text) {
		j.learned.Add(1)
	}
	for l := range levels {
		if p := j.patterns[look.shape.keys[l]]; p != nil && p.trial != nil {
			j.hear(p, look, l, text, nothing)
			if l == byNames && p.proven {
				break
			}
		}
	}
}
