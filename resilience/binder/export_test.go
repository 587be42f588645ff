package binder

import "github.com/treadlight/crawl/resilience"

// SeeRetryForTest calls see with the retry of each document that is bound.
func SeeRetryForTest[T any](o Options[T], see func(*resilience.Retry[T])) Options[T] {
	o.newRetry = func(cfg resilience.RetryConfig[T]) (*resilience.Retry[T], error) {
		r, err := resilience.NewRetry(cfg)
		see(r)
		return r, err
	}
	return o
}
