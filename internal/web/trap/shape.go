package trap

import (
	"slices"
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

// shape is the patterns of a URL, by their hashes.
type shape struct {
	keys  [levels]uint64 // zero: it has none of that level
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

// of computes the shape of a URL. It does not allocate.
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

// inner hashes a segment before the last one, "*" for a variable one.
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

// maxExtension is the longest file extension, such as ".html".
const maxExtension = 6

// last hashes the last segment: "*" and its extension, or nothing if it is empty.
func (h *hasher) last(segment string) {
	if segment == "" {
		return
	}
	h.byte('*')
	if dot := strings.LastIndexByte(segment, '.'); dot >= 0 && len(segment)-dot <= maxExtension && !varies(segment[dot:]) {
		h.text(segment[dot:])
	}
}

// names is a hash of the names of the parameters, independent of their order and number.
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

// titleHash is a hash of a title without its numbers, which differ on every page of a calendar
// or counter; zero if nothing is left.
func titleHash(title string) uint64 {
	const most = 128 // what tells titles apart comes first
	h, word := hasher(0), false
	for i := range min(len(title), most) {
		c := title[i]
		isDigit := c >= '0' && c <= '9'
		if isDigit && !word {
			continue
		}
		word = isDigit || c|0x20 >= 'a' && c|0x20 <= 'z' // a digit behind a letter belongs to a name
		h.byte(c)
	}
	if h == 0 {
		return 0
	}
	return final(uint64(h), byHost)
}

// notFoundTexts are parts of titles and headings of "not found" pages, in lower case: in
// English, German, French, Spanish, Portuguese, Italian, Dutch, Polish, Russian, Chinese,
// Japanese and Korean.
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

// SaysNotFound reports whether a title or heading reads like that of a "not found" page. A page
// about error 404 does too.
func SaysNotFound(text string) bool {
	const most = 256 // what a person would read of it
	text = strings.ToLower(text[:min(len(text), most)])
	return slices.ContainsFunc(notFoundTexts, func(words string) bool { return strings.Contains(text, words) })
}
