package trap

import (
	"strings"

	"github.com/cespare/xxhash/v2"
	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/treadlight/crawl/internal/web/canonical"
	"github.com/treadlight/crawl/internal/web/neardup"
)

// sessions has the parts of URLs that look random: query parameters, parameters of path segments, and segments. They
// are tested for being session ids.
type sessions struct {
	seed  uint64
	parts *simplelru.LRU[uint64, *part]  // by host and name
	seen  *simplelru.LRU[uint64, uint64] // by the URL without its session id: hash of the id under which it is visited
}

const (
	maxParts = 1 << 12 // about 900 bytes each while they are tested
	maxSeen  = 1 << 17 // about 90 bytes each; a URL whose entry was evicted may be visited once more
	// So many pairs of pages with different ids decide the test: equal ones for a session id (if they are four times as
	// many as different ones), different ones against it.
	equalPages, differentPages = 6, 6
	maxTries                   = 256 // pages read for one test
	places                     = 32
	sameBits                   = 3 // in which the fingerprints of equal pages may differ: some pages show the id itself
)

// part is one part of URLs that looks random.
type part struct {
	decided, session        bool
	equal, different, tries int
	first                   *[places]sighting // nil when the test is decided
}

// sighting is the first page that was read for a URL without its id.
type sighting struct{ url, value, sim, images uint64 }

// foundPart is the first part of a URL that looks random.
type foundPart struct {
	key   uint64 // of host and name
	value uint64
	rest  uint64 // hash of the URL without it
}

func (s *sessions) find(u canonical.URL) (p foundPart, ok bool) {
	path := u.Path()
	name, from, to := randomIn(path)
	if from < 0 {
		return p, false
	}
	p.key = final(xxhash.Sum64String(u.Host())^s.seed^xxhash.Sum64String(name), byHost)
	p.value = xxhash.Sum64String(path[from:to])
	h := hasher(p.key)
	h.text(path[:from])
	h.byte(0)
	h.text(path[to:])
	p.rest = final(uint64(h), byHost)
	return p, true
}

// randomIn returns the first part of a path with query that looks random, and its name. from is negative if there is
// none.
func randomIn(s string) (name string, from, to int) {
	from = 1
	query := false
	for i := 1; i <= len(s); i++ {
		if i < len(s) && (query || s[i] != '/' && s[i] != ';' && s[i] != '?') && (!query || s[i] != '&') {
			continue
		}
		name, begin := "", from
		if eq := strings.IndexByte(s[from:i], '='); eq >= 0 {
			name, begin = s[from:from+eq], from+eq+1
		}
		if random(s[begin:i]) || len(s[begin:i]) >= shortID && sessionName(name) {
			return name, begin, i
		}
		from = i + 1
		query = query || i < len(s) && s[i] == '?'
	}
	return "", -1, -1
}

const (
	// shortID is the least length of the value of a parameter named like a session, longID that of any other part (64
	// bits in hex).
	shortID, longID = 6, 16
	// turns is how often, at least, a random text of that length changes between letters and digits. Hex digits change
	// twice as often, names with a number hardly ever.
	turns = 4
)

// random reports whether s is long and consists of letters and digits that alternate.
func random(s string) bool {
	s = strings.TrimSuffix(strings.TrimPrefix(s, "(S("), "))") // the form of ASP.NET
	if len(s) < longID {
		return false
	}
	changes, before := 0, byte(0)
	for i := range len(s) {
		var kind byte
		switch c := s[i]; {
		case c >= '0' && c <= '9':
			kind = 1
		case c|0x20 >= 'a' && c|0x20 <= 'z':
			kind = 2
		case c == '-' || c == '_' || c == '.' || c == '~':
			continue
		default:
			return false
		}
		if before != 0 && kind != before {
			changes++
		}
		before = kind
	}
	return changes >= turns
}

func sessionName(name string) bool {
	if len(name) > maxName {
		return false
	}
	name = strings.ToLower(name)
	return strings.Contains(name, "sess") || name == "sid" || name == "cfid" || name == "cftoken"
}

// open returns the part of u that looks random. wanted says that the text of its page is needed to test the part.
func (s *sessions) open(u canonical.URL) (f foundPart, wanted bool) {
	f, ok := s.find(u)
	if !ok {
		return f, false
	}
	p, ok := s.parts.Get(f.key)
	if !ok {
		p = &part{first: new([places]sighting)}
		s.parts.Add(f.key, p)
	}
	return f, !p.decided
}

// learn compares a page with the first one of its URL, and reports whether the part is now known to be a session id.
func (s *sessions) learn(f foundPart, text *neardup.Text) bool {
	p, ok := s.parts.Get(f.key)
	if !ok || p.decided {
		return false
	}
	sim, images := text.SimHash(), uint64(0)
	for _, h := range text.Images {
		images += h // a sum, so that the order does not matter
	}
	switch at := &p.first[f.rest%places]; {
	case sim == 0: // too short to be compared, but counted as a try
	case at.url == 0:
		*at = sighting{f.rest, f.value, sim, images}
	case at.url != f.rest || at.value == f.value:
	case neardup.Distance(at.sim, sim) <= sameBits && at.images == images:
		p.equal++
	default:
		p.different++
	}
	p.tries++
	p.session = p.equal >= equalPages && p.equal >= 4*p.different
	if p.decided = p.session || p.different >= differentPages || p.tries >= maxTries; p.decided {
		p.first = nil
	}
	return p.session
}

// visited reports whether another URL, with another session id, is visited in place of u. If next is set, u is to be
// visited now or queued, and is remembered if it is the first.
func (s *sessions) visited(u canonical.URL, next bool) bool {
	f, ok := s.find(u)
	if !ok {
		return false
	}
	if p, ok := s.parts.Get(f.key); !ok || !p.session {
		return false
	}
	value, ok := s.seen.Get(f.rest)
	if !ok && next {
		s.seen.Add(f.rest, f.value)
	}
	return ok && (!next || value != f.value)
}
