package trap

import (
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/treadlight/crawl/internal/web/canonical"
)

// level is how wide a pattern is.
type level uint8

const (
	byNames level = iota // the path, and the names of the parameters
	byPath               // the path with whatever parameters; of URLs that have some
	byDir                // the first directory
	byHost
	levels
)

// shape is the patterns of a URL.
type shape struct {
	keys  [levels]uint64 // zero: it has none of that level
	dated bool           // it has a date
}

// hasher hashes what it is told, piece by piece, without a copy.
type hasher uint64

func (h *hasher) byte(c byte) { *h = (*h ^ hasher(c)) * 1099511628211 }

func (h *hasher) text(s string) {
	for i := range len(s) {
		h.byte(s[i])
	}
}

// of is the shape of a URL. It does not allocate.
func (j *Judge) of(u canonical.URL) shape {
	var s shape
	path, query, hasQuery := strings.Cut(u.Path(), "?")
	host := xxhash.Sum64String(u.Host()) ^ j.cfg.Key
	h, dir := hasher(host), ""
	rest := path[1:]
	for first := true; ; first = false {
		segment, more, inner := strings.Cut(rest, "/")
		if !inner {
			h.last(segment)
			break
		}
		if first {
			dir = segment
		}
		h.inner(segment)
		rest = more
	}
	s.keys[byHost] = final(host, byHost)
	s.keys[byDir] = final(host^xxhash.Sum64String(dir), byDir)
	if hasQuery {
		s.keys[byPath] = final(uint64(h), byPath)
		h ^= hasher(names(query))
		h.byte('?')
	}
	s.keys[byNames] = final(uint64(h), byNames)
	_, s.dated = date(u.Path())
	return s
}

// final spreads a hash, and keeps levels apart. It is never zero.
func final(h uint64, l level) uint64 {
	h += uint64(l) + 1
	h ^= h >> 32
	h *= 0x9fb21c651e98df25
	h ^= h >> 28
	return max(h, 1)
}

// inner takes in a segment before the last one: as it is, or as one that varies.
func (h *hasher) inner(segment string) {
	if varies(segment) {
		h.byte('*')
	} else {
		h.text(segment)
	}
	h.byte('/')
}

// maxName is where a segment without digits or hyphens is too long to be the name of a
// directory.
const maxName = 24

func varies(segment string) bool {
	if len(segment) > maxName {
		return true
	}
	for i := range len(segment) {
		if c := segment[i]; c <= '9' && c >= '0' || c == '-' || c == '_' || c == '%' || c == '=' || c == ',' || c == '+' {
			return true
		}
	}
	return false
}

// maxEnding is the longest ending of a file's name, such as ".html".
const maxEnding = 6

// last takes in the last segment: its ending, or that it is none.
func (h *hasher) last(segment string) {
	if segment == "" {
		return
	}
	h.byte('*')
	if dot := strings.LastIndexByte(segment, '.'); dot >= 0 && len(segment)-dot <= maxEnding && !varies(segment[dot:]) {
		h.text(segment[dot:])
	}
}

// names is a hash of the names of the parameters, whatever their order and how often each
// is there.
func names(query string) (sum uint64) {
	var last uint64
	for len(query) > 0 {
		var pair string
		pair, query, _ = strings.Cut(query, "&")
		name, _, _ := strings.Cut(pair, "=")
		if h := final(xxhash.Sum64String(name), 0); h != last {
			sum ^= h
			last = h
		}
	}
	return sum
}
