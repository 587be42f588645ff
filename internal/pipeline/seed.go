package pipeline

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/treadlight/crawl/internal/web/canonical"
)

// Seed is a URL of the user's, and what it is asked for by.
type Seed struct {
	URL     canonical.URL
	request string // as a frontier has it
	points  int
}

// NewSeed is a seed that is asked for by q. The error says what of q cannot be sent.
func NewSeed(u canonical.URL, q Request) (Seed, error) {
	text, err := q.encode()
	return Seed{u, text, q.Points}, err
}

// Plain reports whether there is no more to it than the URL.
func (s *Seed) Plain() bool { return s.request == "" && s.points == 0 }

func (s Seed) String() string {
	if s.Plain() {
		return s.URL.String()
	}
	return fmt.Sprintf("%s %d %q", s.URL, s.points, s.request)
}

// ReadSeed reads what String wrote, but for the URL, which it returns as it stands.
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

// Give adds seeds before Run, which visits them first.
func (p *Pipeline) Give(seeds ...Seed) { p.given = append(p.given, seeds...) }

// Given is how many there are.
func (p *Pipeline) Given() int { return len(p.given) }
