package render

import (
	"fmt"
	"strings"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/treadlight/crawl/internal/web/canonical"
	"github.com/treadlight/crawl/internal/web/scripts"
)

const (
	maxPatterns = 4096
	maxSaved    = 500 // of the patterns seen last
	enough      = 4   // how many pages of a pattern must agree
	maxPattern  = 512 // bytes
	whyLearned  = "learned"
)

// tally counts the rendered pages of a pattern: those that gained something by it, and those that did not.
type tally struct{ gained, idle uint8 }

// learned remembers by patterns of paths which pages need a browser.
type learned struct {
	mu       sync.Mutex // guards what follows
	patterns *simplelru.LRU[string, *tally]
	save     func(string) // may be nil
}

// newLearned starts with what an earlier run saved. Lines that cannot be read are ignored.
func newLearned(saved string, save func(string)) *learned {
	l, _ := simplelru.NewLRU[string, *tally](maxPatterns, nil) // fails only for a size below one
	for line := range strings.Lines(saved) {
		var t tally
		var key string
		if n, _ := fmt.Sscanf(line, "%d %d %s\n", &t.gained, &t.idle, &key); n == 3 && max(t.gained, t.idle) <= enough && len(key) <= maxPattern {
			l.Add(key, &t)
		}
	}
	return &learned{patterns: l, save: save}
}

// text returns the patterns to save, the one seen last at the end. The caller holds the lock.
func (l *learned) text() string {
	var b strings.Builder
	keys := l.patterns.Keys()
	for _, key := range keys[max(0, len(keys)-maxSaved):] {
		if t, ok := l.patterns.Peek(key); ok {
			fmt.Fprintf(&b, "%d %d %s\n", t.gained, t.idle, key)
		}
	}
	return b.String()
}

// judge returns why a page with this sign is to be rendered. Empty means that it is not.
func (l *learned) judge(u canonical.URL, sign scripts.Sign) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	t, known := l.patterns.Get(pattern(u))
	switch {
	case known && t.gained == 0 && t.idle >= enough && sign != scripts.Controls:
		return ""
	case known && t.idle == 0 && t.gained >= enough && sign == "":
		return whyLearned
	}
	return string(sign)
}

// note records whether rendering a page gained something.
func (l *learned) note(u canonical.URL, gained bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := pattern(u)
	t, known := l.patterns.Get(key)
	if !known {
		t = new(tally)
		l.patterns.Add(strings.Clone(key), t)
	}
	count := &t.idle
	if gained {
		count = &t.gained
	}
	if *count == enough {
		return
	}
	*count++
	if l.save != nil {
		l.save(l.text())
	}
}

// pattern returns what pages of one kind have in common: the host and the path. In the path, "*" replaces parts with
// digits, long parts, and the last part if it is below a directory.
func pattern(u canonical.URL) string {
	path, query, _ := strings.Cut(u.Path(), "?")
	parts := strings.Split(strings.Trim(path, "/"), "/")
	for i, part := range parts {
		if i > 0 && i == len(parts)-1 || len(part) > 24 || strings.ContainsAny(part, "0123456789") {
			parts[i] = "*"
		}
	}
	for pair := range strings.SplitSeq(query, "&") {
		name, _, _ := strings.Cut(pair, "=")
		parts = append(parts, "&"+name)
	}
	key := u.Host() + "/" + strings.Join(parts, "/")
	return key[:min(len(key), maxPattern)]
}
