package render

import (
	"strings"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/treadlight/crawl/internal/web/canonical"
	"github.com/treadlight/crawl/internal/web/scripts"
)

const (
	maxPatterns = 4096
	enough      = 4 // pages of a pattern that agree
	whyLearned  = "learned"
)

// tally is what came of the pages of a pattern that were rendered.
type tally struct{ gained, idle uint8 }

// learned knows by patterns of paths which pages need a browser.
type learned struct {
	mu       sync.Mutex // guards what follows
	patterns *simplelru.LRU[string, *tally]
}

func newLearned() *learned {
	l, _ := simplelru.NewLRU[string, *tally](maxPatterns, nil) // its one error is of a size below one
	return &learned{patterns: l}
}

// judge is why a page is to be rendered that has such a sign.
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

// note takes in whether rendering a page brought anything.
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
	*count = min(*count+1, enough)
}

// pattern is what pages of one kind have in common: the host and the path, in which numbers, long names and the last part
// below a directory stand for any.
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
	return key[:min(len(key), 512)]
}
