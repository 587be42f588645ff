package estimate

import (
	"encoding/binary"
	"math"
)

// counts are what the n buckets of a window count, row by row: all events, and then each
// kind of error. Most hosts fail nothing and are asked at most 255 times in a bucket, so
// the rows of errors are there only after the first error, and a count takes one byte until
// it needs two. That makes four forms, which their lengths tell apart: n, 2n, 4n and 8n
// bytes. Of the usual window of fifteen buckets those are 16, 32, 64 and 128 as allocated.
type counts []byte

// form reports whether there are rows of errors, and counts of two bytes.
func (c counts) form(n int) (errs, wide bool) { return len(c) >= 4*n, len(c) == 2*n || len(c) == 8*n }

// as is the same in another form, which must have room for it.
func (c counts) as(n int, errs, wide bool) counts {
	size, rows := n, Kind(1)
	if errs {
		size, rows = 4*n, Network+1
	}
	if wide {
		size *= 2
	}
	to := make(counts, size)
	for k := range rows {
		for i := range n {
			to.set(n, k, i, c.at(n, k, i))
		}
	}
	return to
}

// at is the count of a kind in a bucket; of Success, all events.
func (c counts) at(n int, k Kind, i int) uint16 {
	errs, wide := c.form(n)
	switch i += int(k) * n; {
	case k != Success && !errs:
		return 0
	case wide:
		return binary.LittleEndian.Uint16(c[2*i:])
	}
	return uint16(c[i])
}

// set needs a row for the kind, and width for the count.
func (c counts) set(n int, k Kind, i int, to uint16) {
	i += int(k) * n
	if _, wide := c.form(n); wide {
		binary.LittleEndian.PutUint16(c[2*i:], to)
		return
	}
	c[i] = byte(to)
}

func (c counts) increment(n int, k Kind, i int) { c.set(n, k, i, c.at(n, k, i)+1) }

// empty forgets a bucket.
func (c counts) empty(n, i int) {
	rows := Kind(1)
	if errs, _ := c.form(n); errs {
		rows = Network + 1
	}
	for k := range rows {
		c.set(n, k, i, 0)
	}
}

// sum is the count of a kind in all buckets.
func (c counts) sum(n int, k Kind) (sum int) {
	if errs, _ := c.form(n); c == nil || k != Success && !errs {
		return 0
	}
	for i := range n {
		sum += int(c.at(n, k, i))
	}
	return sum
}

// most is the largest count; no error count is larger than that of all events.
func (c counts) most(n int) (most uint16) {
	for i := range n {
		if most = max(most, c.at(n, Success, i)); most == math.MaxUint16 {
			break
		}
	}
	return most
}
