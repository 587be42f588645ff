package classic

import (
	"math"

	"github.com/treadlight/crawl/internal/clock"
)

// Charge takes n tokens at once, whether they are there or not, for what was used before
// its price was known, such as the bytes of an answer. What is missing is a debt: nothing
// is granted before it is paid, and Statistics.Available is as far below zero. A debt
// ends at the range of int64; n below 1 is no charge. It counts as acquired.
//
// Those in line look again when their timers fire: a charge only makes them wait longer.
func (l *TokenBucket) Charge(n int64) {
	if n < 1 {
		return
	}
	l.mu.Lock()
	l.state.charge(l.nowLocked(), n)
	l.acquired = addCount(l.acquired, n)
	l.mu.Unlock()
}

// deepest leaves room to add a weight and a burst to a debt without wrapping around.
const deepest = math.MinInt64 / 4

func (b *bucket) charge(now clock.Instant, n int64) {
	b.advance(now)
	b.tokens = max(b.tokens-min(n, -deepest), deepest)
}
