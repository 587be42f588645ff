package limit

import (
	"math"
	"math/bits"
	"time"
)

// addCount adds a weight to a counter, which stops at its maximum.
func addCount(count uint64, n int64) uint64 {
	sum, carry := bits.Add64(count, uint64(max(n, 0)), 0)
	if carry != 0 {
		return math.MaxUint64
	}
	return sum
}

// addWaits is a sum of waits, which are not negative. Past the range it is Never.
func addWaits(a, b time.Duration) time.Duration {
	if a > Never-b {
		return Never
	}
	return a + b
}

// ceilWait is (hi·2⁶⁴ + lo) / by nanoseconds, rounded up to the first whole one.
func ceilWait(hi, lo, by uint64) time.Duration {
	if hi >= by {
		return Never
	}
	q, r := bits.Div64(hi, lo, by)
	if q >= math.MaxInt64 {
		return Never
	}
	if r > 0 {
		q++
	}
	return time.Duration(q)
}

// mulWait is n·d, or Never.
func mulWait(n uint64, d time.Duration) time.Duration {
	hi, lo := bits.Mul64(n, uint64(d))
	if hi != 0 || lo > math.MaxInt64 {
		return Never
	}
	return time.Duration(lo)
}

// part is n of as many parts of d, rounded up.
func part(d time.Duration, n, of int64) time.Duration {
	hi, lo := bits.Mul64(uint64(max(n, 0)), uint64(d))
	return ceilWait(hi, lo, uint64(of))
}
