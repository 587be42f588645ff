package trap

import (
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/treadlight/crawl/internal/web/canonical"
	"github.com/treadlight/crawl/internal/web/neardup"
)

// sessions is what is known of the parts of URLs that look random: parameters, parameters of
// path segments, and segments.
type sessions struct {
	parts map[uint64]*part  // by host and name
	seen  map[uint64]uint64 // of parts that are session ids: the URL that is visited, by what is left without the id
}

const (
	// maxParts bounds the parts, at some 900 bytes each while they are tried.
	maxParts = 1 << 12
	// maxSeen bounds the URLs without their ids. When there are so many all are forgotten,
	// and each may be visited once more.
	maxSeen = 1 << 18
	// equalPages are as many pairs of pages that were the same under two ids as tell that it
	// is one, and differentPages that it is none.
	equalPages, differentPages = 6, 6
	// maxTries bounds the pages that are read for it.
	maxTries = 256
	places   = 32
	// sameBits is in how many bits the fingerprints of pages that are the same may differ:
	// those that show the id itself.
	sameBits = 3
)

// part is a part of URLs that looks random.
type part struct {
	decided, session        bool
	equal, different, tries int
	first                   *[places]sighting // nil when it is decided
}

// sighting is the first page of a URL without its id.
type sighting struct{ url, value, sim, images uint64 }

func newSessions() sessions {
	return sessions{parts: make(map[uint64]*part), seen: make(map[uint64]uint64)}
}

// found is the part of a URL that looks random.
type foundPart struct {
	key   uint64 // of host and name
	value uint64
	rest  uint64 // the URL without it
}

// find finds the first such part.
func find(u canonical.URL, seed uint64) (p foundPart, ok bool) {
	s := u.Path()
	name, from, to := randomIn(s)
	if from < 0 {
		return p, false
	}
	host := xxhash.Sum64String(u.Host()) ^ seed
	p.key = final(host^xxhash.Sum64String(name), byHost)
	p.value = xxhash.Sum64String(s[from:to])
	h := hasher(p.key)
	h.text(s[:from])
	h.byte(0)
	h.text(s[to:])
	p.rest = final(uint64(h), byHost)
	return p, true
}

// randomIn finds the first part of a path with its query that looks random, and what it is
// called; from is below zero if there is none.
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
	// shortID is the shortest value of a parameter that is called a session; longID of any
	// other part, which is 64 bits in hex digits.
	shortID, longID = 6, 16
	// turns is how often a random text of that length changes between letters and digits:
	// half as often as those of hex digits do, and names with a number hardly ever.
	turns = 4
)

// random reports whether a text looks random.
func random(s string) bool {
	s = strings.TrimSuffix(strings.TrimPrefix(s, "(S("), "))") // as ASP.NET writes it
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

// sessionName reports whether a parameter is called what sessions are called.
func sessionName(name string) bool {
	if len(name) > maxName {
		return false
	}
	name = strings.ToLower(name)
	return strings.Contains(name, "sess") || name == "sid" || name == "cfid" || name == "cftoken"
}

// open reports whether the page of a URL is wanted to tell about its part.
func (s *sessions) open(u canonical.URL, seed uint64) bool {
	f, ok := find(u, seed)
	if !ok {
		return false
	}
	p := s.parts[f.key]
	if p == nil {
		if len(s.parts) >= maxParts {
			s.makeRoom()
		}
		p = &part{first: new([places]sighting)}
		s.parts[f.key] = p
	}
	return !p.decided
}

// makeRoom forgets all but the session ids, or if they are too many, all.
func (s *sessions) makeRoom() {
	for key, p := range s.parts {
		if !p.session {
			delete(s.parts, key)
		}
	}
	if len(s.parts) >= maxParts/2 {
		clear(s.parts)
		clear(s.seen)
	}
}

// learn takes in what a page says and shows and reports whether its part has turned out to
// be a session id.
func (s *sessions) learn(u canonical.URL, seed uint64, text *neardup.Text) bool {
	f, ok := find(u, seed)
	if !ok {
		return false
	}
	p := s.parts[f.key]
	if p == nil || p.decided {
		return false
	}
	sim, images := text.SimHash(), uint64(0)
	for _, h := range text.Images {
		images += h // in whatever order
	}
	switch at := &p.first[f.rest%places]; {
	case sim == 0: // too short to be compared, but it was read
	case at.url == 0:
		*at = sighting{f.rest, f.value, sim, images}
	case at.url != f.rest || at.value == f.value:
	case neardup.Distance(at.sim, sim) <= sameBits && at.images == images:
		p.equal++
	default:
		p.different++
	}
	p.tries++
	if p.different >= differentPages || p.tries >= maxTries {
		p.decided, p.first = true, nil
	} else if p.equal >= equalPages && p.equal >= 4*p.different {
		p.decided, p.session, p.first = true, true, nil
	}
	return p.session
}

// known reports whether another URL is visited for this one. One that is to be visited next
// and has none is noted.
func (s *sessions) known(u canonical.URL, seed uint64, next bool) bool {
	f, ok := find(u, seed)
	if !ok {
		return false
	}
	if p := s.parts[f.key]; p == nil || !p.session {
		return false
	}
	visited, ok := s.seen[f.rest]
	if !ok && next {
		s.note(f)
	}
	return ok && (!next || visited != f.value)
}

// accept notes a URL that is to be visited.
func (s *sessions) accept(u canonical.URL, seed uint64) {
	f, ok := find(u, seed)
	if !ok {
		return
	}
	if p := s.parts[f.key]; p != nil && p.session {
		if _, ok := s.seen[f.rest]; !ok {
			s.note(f)
		}
	}
}

func (s *sessions) note(f foundPart) {
	if len(s.seen) >= maxSeen {
		clear(s.seen)
	}
	s.seen[f.rest] = f.value
}
