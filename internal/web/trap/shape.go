package trap

import (
	"slices"
	"strconv"
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/treadlight/crawl/internal/web/canonical"
)

// level says how wide a pattern is.
type level uint8

const (
	byNames level = iota // the path, and the names of the parameters
	byPath               // the path with any parameters, for URLs that have some
	byDir                // the first directory
	byHost
	levels
)

type shape struct {
	keys  [levels]uint64 // hash of the pattern of each level; zero if the URL has none
	dated bool           // it has a date
}

// hasher is FNV-1a, 64 bits.
type hasher uint64

func (h *hasher) byte(c byte) { *h = (*h ^ hasher(c)) * 1099511628211 }

func (h *hasher) text(s string) {
	for i := range len(s) {
		h.byte(s[i])
	}
}

// of returns the shape of a URL. It does not allocate.
func (d *Detector) of(u canonical.URL) shape {
	var s shape
	path, query, hasQuery := strings.Cut(u.Path(), "?")
	host := xxhash.Sum64String(u.Host()) ^ d.cfg.Key
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

// final mixes a hash with its level. It is never zero.
func final(h uint64, l level) uint64 {
	h += uint64(l) + 1
	h ^= h >> 32
	h *= 0x9fb21c651e98df25
	h ^= h >> 28
	return max(h, 1)
}

// inner hashes a segment before the last one; a variable segment is hashed as "*".
func (h *hasher) inner(segment string) {
	if varies(segment) {
		h.byte('*')
	} else {
		h.text(segment)
	}
	h.byte('/')
}

// maxName is the longest segment that can be the name of a directory.
const maxName = 24

func varies(segment string) bool {
	return len(segment) > maxName || strings.ContainsAny(segment, "0123456789-_%=,+")
}

// maxExtension is the longest file extension, such as ".html".
const maxExtension = 6

// last hashes the last segment as "*" and its extension, or as nothing if it is empty.
func (h *hasher) last(segment string) {
	if segment == "" {
		return
	}
	h.byte('*')
	if dot := strings.LastIndexByte(segment, '.'); dot >= 0 && len(segment)-dot <= maxExtension && !varies(segment[dot:]) {
		h.text(segment[dot:])
	}
}

// names returns a hash of the names of the parameters that does not depend on their order and number.
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

// titleHash returns a hash of a title without its numbers, which differ on every page of a calendar or counter. It
// returns zero if nothing is left.
func titleHash(title string) uint64 {
	const most = 128 // the beginnings of titles suffice to distinguish them
	h, word := hasher(0), false
	for i := range min(len(title), most) {
		c := title[i]
		isDigit := c >= '0' && c <= '9'
		if isDigit && !word {
			continue
		}
		word = isDigit || c|0x20 >= 'a' && c|0x20 <= 'z' // a digit after a letter belongs to a name
		h.byte(c)
	}
	if h == 0 {
		return 0
	}
	return final(uint64(h), byHost)
}

// notFoundTexts are phrases in titles and headings of "not found" pages, in lower case: in English, German, French,
// Spanish, Portuguese, Italian, Dutch, Polish, Russian, Chinese, Japanese and Korean.
var notFoundTexts = []string{
	"404", "not found", "page not found", "does not exist", "doesn't exist", "no longer available", "no results", "nothing found", "can't be found",
	"nicht gefunden", "existiert nicht", "keine ergebnisse",
	"introuvable", "n'existe pas", "non trouvée", "aucun résultat",
	"no encontrad", "no existe", "sin resultados",
	"não encontrad", "não existe", "non trovat", "non esiste",
	"niet gevonden", "bestaat niet",
	"nie znalezion", "nie istnieje",
	"не найден", "не существует",
	"页面不存在", "未找到", "找不到", "見つかりません", "存在しません", "찾을 수 없",
}

// SaysNotFound reports whether a title or heading reads like that of a "not found" page. That of a page about error 404
// does too.
func SaysNotFound(text string) bool {
	const most = 256 // as much as a person would read
	text = strings.ToLower(text[:min(len(text), most)])
	return slices.ContainsFunc(notFoundTexts, func(words string) bool { return strings.Contains(text, words) })
}

// checkURL decides by the form of the URL alone.
func checkURL(u canonical.URL) Decision {
	if len(u.String()) > maxURLLength {
		return URLLength
	}
	path, _, _ := strings.Cut(u.Path(), "?")
	n := strings.Count(path, "/")
	if n > maxDepth {
		return PathDepth
	}
	if n > maxRepeats && repeats(path) {
		return PathRepetition
	}
	return Follow
}

// longestGroup is how many segments may repeat together. Relative links without a leading slash repeat the directories
// from the root, which are few.
const longestGroup = 8

// maxSegments bounds how many segments are compared.
const maxSegments = 64

// repeats reports whether segments occur more often than allowed: in a row, as /a/b in /a/b/a/b/a/b/a/b, or one of
// them anywhere. Numbers and single characters may follow themselves as often as they may occur: coordinates are
// often zero, and collections are stored by the digits of a hash.
func repeats(path string) bool {
	var room [maxSegments]string
	list := room[:0]
	for segment := range strings.SplitSeq(path[1:], "/") {
		if segment != "" && len(list) < maxSegments {
			list = append(list, segment)
		}
	}
	for i, segment := range list {
		n := 0
		for _, s := range list[i:] {
			if s == segment {
				n++
			}
		}
		if n <= maxRepeats { // as nearly always
			continue
		}
		if n > 3*maxRepeats {
			return true
		}
		for group := 1; group <= longestGroup && i+group*(maxRepeats+1) <= len(list); group++ {
			n := group * maxRepeats // segments that are those a group before
			if (group > 1 || len(segment) > 1 && digits(segment, len(segment)) < len(segment)) && slices.Equal(list[i:i+n], list[i+group:i+group+n]) {
				return true
			}
		}
	}
	return false
}

// Years outside of these are far: newspaper archives begin after 1700, and few events are planned for later than in
// five years.
const (
	firstYear = 1700
	yearsOn   = 5
)

func far(year, thisYear int) bool {
	return year != 0 && (year < firstYear || year > thisYear+yearsOn)
}

// date returns the year of the first date in a URL: a year and a month, as in /2031/04, 2031-04-01 or 20310401, or a
// parameter named like a year. A year alone in a path may be any name.
func date(u string) (year int, ok bool) {
	path, query, _ := strings.Cut(u, "?")
	if year, ok = dateIn(path); ok {
		return year, true
	}
	for pair := range strings.SplitSeq(query, "&") {
		name, value, _ := strings.Cut(pair, "=")
		if year, ok = dateIn(value); ok {
			return year, true
		}
		if n := digits(value, 5); n == 4 && len(value) == 4 && strings.HasPrefix(strings.ToLower(name), "y") {
			return atoi(value), true
		}
	}
	return 0, false
}

func dateIn(s string) (year int, ok bool) {
	for i := 0; i < len(s); {
		n := digits(s[i:], 9)
		if n == 0 {
			i++
			continue
		}
		part := s[i : i+n]
		switch {
		case n == 8 && month(part[4:6]) && atoi(part[6:]) >= 1 && atoi(part[6:]) <= 31:
			return atoi(part[:4]), true
		case n == 4 && i+n+1 < len(s) && (s[i+n] == '/' || s[i+n] == '-'):
			behind := s[i+n+1:]
			if m := digits(behind, 3); (m == 1 || m == 2) && month(behind[:m]) && part[0] != '0' {
				return atoi(part), true
			}
		}
		i += n
	}
	return 0, false
}

// digits returns how many digits s begins with, at most most.
func digits(s string, most int) int {
	n := 0
	for n < len(s) && n < most && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	return n
}

func atoi(s string) int {
	n, _ := strconv.Atoi(s) // no error: s is a few digits
	return n
}

func month(s string) bool { n := atoi(s); return n >= 1 && n <= 12 }
