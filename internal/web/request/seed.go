package request

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/treadlight/crawl/internal/web/canonical"
)

// Seed is a URL that the user gave, and how it is requested.
type Seed struct {
	URL    canonical.URL
	Stored string // what Encode returned for the request; empty for a GET of the URL alone
	Points int    // adjusts the rank; see [Request]
}

// NewSeed returns a seed that is requested as q says. The error names the part of q that cannot be sent.
func NewSeed(u canonical.URL, q Request) (Seed, error) {
	text, err := q.Encode()
	return Seed{u, text, q.Points}, err
}

// Outside reports whether the seed does not extend the scope.
func (s Seed) Outside() bool { return Decode(s.Stored).Outside }

// String returns the seed as one line.
func (s Seed) String() string {
	if s.Stored == "" && s.Points == 0 {
		return s.URL.String()
	}
	return fmt.Sprintf("%s %d %q", s.URL, s.Points, s.Stored)
}

// ParseSeed reads what [Seed.String] returned.
func ParseSeed(line string) (Seed, error) {
	url, rest, more := strings.Cut(line, " ")
	u, err := canonical.Parse(url)
	if err != nil || !more {
		return Seed{URL: u}, err
	}
	points, request, _ := strings.Cut(rest, " ")
	n, errPoints := strconv.Atoi(points)
	text, errText := strconv.Unquote(request)
	if err := cmp.Or(errPoints, errText); err != nil {
		return Seed{}, fmt.Errorf("the seed %s cannot be read: %w", url, err)
	}
	return Seed{u, text, n}, nil
}
