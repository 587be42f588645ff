package testsite

import (
	"math"
	"time"
)

// draw is a stream of pseudo-random numbers, SplitMix64 (Steele, Lea and Flood, 2014): it does not change
// with the Go release, and any number can begin a stream, so page i is drawn without the pages before it.
type draw uint64

// The streams of one host. What is drawn from one tells nothing about another.
const (
	streamPage = iota + 1
	streamMedia
	streamPrivate
	streamRedirect
	streamLatency
	streamFlaky
	streamLoad
	streamListed
)

// newDraw is the stream of the n-th thing of a kind on a host. Without the two rounds of
// mixing, page n+1 would repeat page n shifted by one draw.
func newDraw(hostSeed uint64, stream, n int) draw {
	d := draw(hostSeed ^ uint64(stream)<<56)
	d = draw(d.next() + uint64(n))
	return draw(d.next())
}

func (d *draw) next() uint64 {
	*d += 0x9e3779b97f4a7c15
	z := uint64(*d)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// below is a number from 0 to n-1. Its bias is below 2^-40 for any n in use.
func (d *draw) below(n int) int { return int(d.next() % uint64(n)) }

// unit is a number strictly between 0 and 1, so that its logarithm and quantile exist.
func (d *draw) unit() float64 { return (float64(d.next()>>11) + 0.5) / (1 << 53) }

// tailCut bounds the lognormal distribution, so that no rare draw decides how long a test takes.
const tailCut = 20

func (l *Latency) sample(d draw) time.Duration {
	typical := float64(l.Typical)
	switch l.Dist {
	case distUniform:
		return time.Duration(typical * (1 + l.Spread*(2*d.unit()-1)))
	case distLognormal:
		normal := math.Sqrt2 * math.Erfinv(2*d.unit()-1)
		return time.Duration(typical * min(tailCut, math.Exp(l.Spread*normal)))
	}
	return l.Typical
}

func (s Size) sample(d *draw) int { return s.Min + d.below(s.Max-s.Min+1) }
