// Package estimate summarises a stream of measurements in a few bytes.
//
// [EWMA] is the running mean that forgets, [Quantile] the tail of the last
// durations, [Window] the outcomes of the last half minute or so. All three are
// values that belong to one owner: they take no lock, read no clock and start
// nothing, and the owner serialises the calls. They are small because an engine
// keeps one of each for every host it knows.
package estimate

// EWMA is an exponentially weighted moving average. Its value is the average, so
// it is seeded by assignment and read by conversion. The zero EWMA averages from 0.
type EWMA float64

// Add moves the average by the share lambda, in (0, 1], towards x. A lambda of 1
// forgets everything, one near 0 hardly listens.
func (e *EWMA) Add(x, lambda float64) { *e = EWMA((1-lambda)*float64(*e) + lambda*x) }
