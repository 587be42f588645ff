package pipeline

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/treadlight/crawl/internal/web/canonical"
)

// Seed is a URL that the user gave, and how it is requested.
type Seed struct {
	URL     canonical.URL
	request string // as the frontier stores it
	points  int
}

// NewSeed returns a seed that is requested as q says. The error names the part of q that cannot be sent.
func NewSeed(u canonical.URL, q Request) (Seed, error) {
	text, err := q.encode()
	return Seed{u, text, q.Points}, err
}

// Plain reports whether the seed is nothing more than a URL.
func (s *Seed) Plain() bool { return s.request == "" && s.points == 0 }

func (s Seed) String() string {
	if s.Plain() {
		return s.URL.String()
	}
	return fmt.Sprintf("%s %d %q", s.URL, s.points, s.request)
}

// ReadSeed reads what [Seed.String] wrote. It returns the URL as text, and a seed whose URL is not set.
func ReadSeed(line string) (url string, s Seed, err error) {
	url, rest, more := strings.Cut(line, " ")
	if !more {
		return url, s, nil
	}
	points, request, _ := strings.Cut(rest, " ")
	n, errPoints := strconv.Atoi(points)
	text, errText := strconv.Unquote(request)
	if err := cmp.Or(errPoints, errText); err != nil {
		return url, s, fmt.Errorf("the seed %s cannot be read: %w", url, err)
	}
	s.request, s.points = text, n
	return url, s, nil
}

// Give adds seeds that Run visits before those of its sequence. It must not be called after Run.
func (p *Pipeline) Give(seeds ...Seed) { p.given = append(p.given, seeds...) }

// Given returns how many seeds were given.
func (p *Pipeline) Given() int { return len(p.given) }
