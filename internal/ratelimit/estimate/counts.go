package estimate

import (
	"encoding/binary"
	"math"
)

// counts are what the n buckets of a window count: a row of all events, and then one of
// errors. Most hosts fail nothing and are asked at most 255 times in a bucket, so the second
// row is there only after the first error, and a count takes one byte until it needs two,
// when there are both rows anyhow. That makes three forms, which their lengths tell apart: n,
// 2n and 4n bytes. Of the usual window of fifteen buckets those are 16, 32 and 64 as allocated.
type counts []byte

// rows of counts.
const (
	allEvents = iota
	errorEvents
	numRows
)

// form reports whether there is a row of errors, and counts of two bytes.
func (c counts) form(n int) (errs, wide bool) { return len(c) >= numRows*n, len(c) == 2*numRows*n }

// rows is how many there are.
func (c counts) rows(n int) int {
	if errs, _ := c.form(n); errs {
		return numRows
	}
	return 1
}

// as is the same in another form, which must have room for it; wide counts have errors.
func (c counts) as(n int, errs, wide bool) counts {
	size := n
	if errs || wide {
		size *= numRows
	}
	if wide {
		size *= 2
	}
	to := make(counts, size)
	for row := range min(c.rows(n), to.rows(n)) {
		for i := range n {
			to.set(n, row, i, c.at(n, row, i))
		}
	}
	return to
}

// at is the count of a row in a bucket.
func (c counts) at(n, row, i int) uint16 {
	errs, wide := c.form(n)
	switch i += row * n; {
	case row == errorEvents && !errs:
		return 0
	case wide:
		return binary.LittleEndian.Uint16(c[2*i:])
	}
	return uint16(c[i])
}

// set needs the row, and width for the count.
func (c counts) set(n, row, i int, to uint16) {
	i += row * n
	if _, wide := c.form(n); wide {
		binary.LittleEndian.PutUint16(c[2*i:], to)
		return
	}
	c[i] = byte(to)
}

func (c counts) increment(n, row, i int) { c.set(n, row, i, c.at(n, row, i)+1) }

// empty forgets a bucket.
func (c counts) empty(n, i int) {
	for row := range c.rows(n) {
		c.set(n, row, i, 0)
	}
}

// sum is the count of a row in all buckets.
func (c counts) sum(n, row int) (sum int) {
	if errs, _ := c.form(n); c == nil || row == errorEvents && !errs {
		return 0
	}
	for i := range n {
		sum += int(c.at(n, row, i))
	}
	return sum
}

// most is the largest count; none of errors is larger than that of all events.
func (c counts) most(n int) (most uint16) {
	for i := range n {
		if most = max(most, c.at(n, allEvents, i)); most == math.MaxUint16 {
			break
		}
	}
	return most
}
