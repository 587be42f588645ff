package binder

import (
	"io"

	"github.com/treadlight/crawl/resilience"
)

// UseForTest is the current value and what ends its use.
func (l *Live[C]) UseForTest() (C, func(), error) {
	g, err := l.use()
	if err != nil {
		var none C
		return none, nil, err
	}
	return g.value, g.leave, nil
}

// CurrentForTest is the current value.
func (l *Live[C]) CurrentForTest() C { return l.current.Load().value }

var _ io.Closer = (*Live[io.Closer])(nil)

// SeeRetryForTest calls see with the retry of each document that is bound.
func SeeRetryForTest[T any](o Options[T], see func(*resilience.Retry[T])) Options[T] {
	o.newRetry = func(cfg resilience.RetryConfig[T]) (*resilience.Retry[T], error) {
		r, err := resilience.NewRetry(cfg)
		see(r)
		return r, err
	}
	return o
}
