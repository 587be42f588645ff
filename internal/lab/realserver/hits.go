package realserver

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"time"
)

// Hit is one request as the server saw it.
type Hit struct {
	At         time.Time     // of its arrival, to the millisecond or better
	Took       time.Duration // until its answer was sent; zero if the server does not log it
	Status     int
	RetryAfter time.Duration // of the answer, whatever its status; zero if none
	URI        string        // path and query as sent
}

// ParseHits reads a log and returns its hits in order of arrival. An error names the line.
//
// All servers log fields as name=value, and last the request line, which may hold anything.
// Times are Unix times, in seconds except for at_ms.
//
//	at=1700000000.123 status=200 after=- request=GET /page.html?q=1 HTTP/1.1
//	at_ms=1700000000123 ...            of a server whose seconds have no fraction
//	end=1700000000.123 took=0.004 ...  of one that logs when it is done
func ParseHits(r io.Reader) ([]Hit, error) {
	var hits []Hit
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		h, err := parseHit(lines.Text())
		if err != nil {
			return nil, fmt.Errorf("log line %d: %w", n, err)
		}
		hits = append(hits, h)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read log: %w", err)
	}
	slices.SortStableFunc(hits, func(a, b Hit) int { return a.At.Compare(b.At) })
	return hits, nil
}

// hitLine is a line of a log. A refusal before the request line is read has no URI.
var hitLine = regexp.MustCompile(`^(?:(?:at|end)=([\d.]+)|at_ms=(\d+))(?: took=([\d.]+))? status=(\d+) after=(\d*)\S* request=(?:\S+ (\S+))?`)

func parseHit(line string) (h Hit, err error) {
	m := hitLine.FindStringSubmatch(line)
	if m == nil {
		return h, fmt.Errorf("%q is no hit", line)
	}
	var errs [3]error
	duration := func(i int, text, unit string) (d time.Duration) {
		if text != "" {
			d, errs[i] = time.ParseDuration(text + unit)
		}
		return d
	}
	h.Took, h.RetryAfter, h.URI = duration(0, m[3], "s"), duration(1, m[5], "s"), m[6]
	h.At = time.Unix(0, int64(duration(2, m[1], "s")+duration(2, m[2], "ms")-h.Took)) // of a line that says when it ended; zero for the others
	h.Status, err = strconv.Atoi(m[4])
	return h, errors.Join(append(errs[:], err)...)
}

// Figures is how a client fared at a server over a span of time.
type Figures struct {
	Requests int // how many arrived
	Refused  int // how many of them got another status than 2xx and 404
	// Blocks is how often an admitted request was followed by nothing but refusals, or by none
	// after a refusal, for blockSpan or longer.
	Blocks int
	Inside int     // how many requests came while the Retry-After of a refusal ran
	Used   float64 // the admitted share of what was available, more than 1 in a short time with a burst
}

// RefusedShare is Refused by Requests, 0 to 1, and zero without any.
func (f Figures) RefusedShare() float64 {
	if f.Requests == 0 {
		return 0
	}
	return float64(f.Refused) / float64(f.Requests)
}

const (
	// blockSpan distinguishes a block from an empty bucket: the slowest limit here, 2 per
	// second, admits a retry within it.
	blockSpan = 2 * time.Second
	// inTransit is how late a request may arrive and still have been sent before its client
	// knew of a refusal, on a busy machine.
	inTransit = 200 * time.Millisecond
)

// Measure computes the figures of the hits, in order of arrival, in [from, to) at a server that
// admits available requests per second. A Retry-After from before counts too.
func Measure(hits []Hit, from, to time.Time, available float64) Figures {
	var f Figures
	var hints []Hit // refusals with a Retry-After, by arrival
	var admitted, blocked time.Time
	for _, h := range hits {
		if !h.At.Before(to) {
			break
		}
		in := !h.At.Before(from)
		if in {
			f.Requests++
			if slices.ContainsFunc(hints, func(o Hit) bool {
				told := o.At.Add(o.Took)
				return h.At.After(told.Add(inTransit)) && h.At.Before(told.Add(o.RetryAfter))
			}) {
				f.Inside++
			}
		}
		if h.Status/100 == 2 || h.Status == http.StatusNotFound {
			if in && !blocked.IsZero() && h.At.Sub(blocked) >= blockSpan {
				f.Blocks++
			}
			admitted, blocked = h.At, time.Time{}
			continue
		}
		if in {
			f.Refused++
		}
		if blocked.IsZero() && !admitted.IsZero() {
			blocked = h.At
		}
		if h.RetryAfter > 0 {
			hints = append(hints, h)
		}
	}
	if !blocked.IsZero() && to.Sub(blocked) >= blockSpan && f.Refused > 0 {
		f.Blocks++ // until the end
	}
	if capacity := available * to.Sub(from).Seconds(); capacity > 0 {
		f.Used = float64(f.Requests-f.Refused) / capacity
	}
	return f
}
