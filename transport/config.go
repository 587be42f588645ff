package transport

import (
	"fmt"
	"time"

	"github.com/treadlight/crawl/internal/clock"
)

// positive is d, or what stands for zero; a negative d is an error that names the field.
func positive(field string, d, zero time.Duration) (time.Duration, error) {
	if d < 0 {
		return 0, fmt.Errorf("transport: %s is %v: use a positive duration, or zero for %v", field, d, zero)
	}
	if d == 0 {
		return zero, nil
	}
	return d, nil
}

func orSystem(clk clock.Clock) clock.Clock {
	if clk == nil {
		return clock.System()
	}
	return clk
}
