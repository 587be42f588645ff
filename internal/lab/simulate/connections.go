package simulate

import (
	"time"

	"github.com/treadlight/crawl/internal/clock"
)

// connections is nginx's limit_conn: it refuses whenever so many requests are in, and
// cares for nothing else.
type connections struct {
	most  int
	takes time.Duration   // of each answer
	ends  []clock.Instant // of the requests that are in, in order
}

// Serve implements [Server].
func (c *connections) Serve(now clock.Instant) Answer {
	for len(c.ends) > 0 && c.ends[0] <= now {
		c.ends = c.ends[1:]
	}
	if len(c.ends) >= c.most {
		return Answer{Status: unavailable, Refused: true}
	}
	c.ends = append(c.ends, now.Add(c.takes))
	a := admitted()
	a.Delay = c.takes
	return a
}

// Next implements [Server].
func (c *connections) Next(now clock.Instant) clock.Instant {
	gone := 0
	for gone < len(c.ends) && c.ends[gone] <= now {
		gone++
	}
	if in := len(c.ends) - gone; in >= c.most {
		return c.ends[gone+in-c.most]
	}
	return now
}
