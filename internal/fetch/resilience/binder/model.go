package binder

import (
	"bytes"
	"encoding/json"
	"reflect"
	"time"
)

// Model is a checked document: a section that is nil was not written, and its policy is
// absent. Every value in it is in range, those that were not written are at their
// defaults, and nobody changes it after it is loaded, so that it may be shared by any
// number of goroutines. The zero Model is a document without a section: no policy at all.
type Model struct {
	Retry             *Retry
	Timeout           *Timeout
	CircuitBreaker    *CircuitBreaker
	Bulkhead          *Bulkhead
	BulkheadIsolation *BulkheadIsolation
	Hedging           *Hedging
	Fallback          *Fallback
}

// Retry is how often and how soon a failed call is tried again.
type Retry struct {
	// MaxRetries is the number of tries after the first, 0 to 100; not written means 3.
	// It does not count while Forever is set.
	MaxRetries int
	// Forever tries again until a call succeeds or its context ends; not written means not.
	Forever bool
	// Backoff is the pause between two tries.
	Backoff Backoff
}

// Backoff is how the pause grows from one try to the next.
type Backoff struct {
	// Type is the way it grows; not written means exponential. A retry without a pause is
	// the surest way to keep a struggling server down, so it has to be asked for.
	Type BackoffType
	// Base is the first pause, 1 ms to 1 h; not written means 200 ms, or MaxDelay if that
	// is shorter.
	Base time.Duration
	// MaxDelay bounds every pause, Base to 24 h; not written means 30 s, or Base if that is
	// longer.
	MaxDelay time.Duration
	// Jitter spreads constant, linear and exponential pauses over the whole range from zero
	// up, so that clients that failed together do not return together; not written means it
	// does. The decorrelated type is random by itself.
	Jitter bool
}

// BackoffType names a way to grow, as documents are written out with it.
type BackoffType string

// The ways to grow.
const (
	BackoffNone         BackoffType = "none"               // no pause at all
	BackoffConstant     BackoffType = "constant"           // always Base
	BackoffLinear       BackoffType = "linear"             // Base times the number of failures
	BackoffExponential  BackoffType = "exponential"        // Base, doubled with each failure
	BackoffDecorrelated BackoffType = "decorrelatedJitter" // random between Base and three times the pause before
)

// Timeout bounds one attempt; what all attempts may take together is the business of the
// caller's context.
type Timeout struct {
	// Limit is from the start of an attempt to the end of its answer, 1 ms to 24 h; not
	// written means 30 s.
	Limit time.Duration
}

// CircuitBreaker stops calls to what keeps failing.
type CircuitBreaker struct {
	// Name is the circuit; those of one name share one breaker. 1 to 100 printable bytes;
	// not written means "default".
	Name string
	// FailureThreshold is the failures in a row that open it, 1 to 1,000,000; not written
	// means 5.
	FailureThreshold int
	// SuccessThreshold is the successes that close it again, 1 to 65,535; not written means 1.
	SuccessThreshold int
	// Break is for how long it stays open, 1 ms to 24 h; not written means 30 s.
	Break time.Duration
}

// Bulkhead bounds the calls under way.
type Bulkhead struct {
	// MaxConcurrency is how many may be under way, 1 to 100,000; not written means 10.
	MaxConcurrency int
	// MaxQueue is how many more may wait, 0 (none) to 1,000,000; not written means 100.
	MaxQueue int
	// QueueTimeout is for how long one may wait, up to 24 h; 0 is not at all, and not
	// written means 10 s.
	QueueTimeout time.Duration
}

// BulkheadIsolation bounds the calls under way for each key, which for HTTP is the host.
type BulkheadIsolation struct {
	// MaxConcurrency is how many of one key may be under way, 1 to 100,000; not written
	// means 10.
	MaxConcurrency int
	// MaxQueue is how many more of one key may wait, 0 (none) to 1,000,000; not written
	// means 100.
	MaxQueue int
	// QueueTimeout is for how long one may wait, up to 24 h; 0 is not at all, and not
	// written means 10 s.
	QueueTimeout time.Duration
}

// Hedging sends a second request when the first is slow.
type Hedging struct {
	// After is how long the latest attempt may take before another one starts, 1 ms to 1 h;
	// not written means 200 ms.
	After time.Duration
	// MaxAttempts is how many may be started beside the first, 1 to 10; not written means 1.
	MaxAttempts int
}

// Fallback says when something else is returned in place of what came. What that is cannot
// be written in a document; the program gives it.
type Fallback struct {
	// StatusCodes are the statuses it replaces, 100 to 599 and none twice; not written means
	// 500, 502, 503 and 504. It replaces errors as well, whatever is written here.
	StatusCodes []int
}

// Equal reports whether two documents ask for the same.
func (m *Model) Equal(o *Model) bool { return reflect.DeepEqual(m, o) }

// MarshalJSON writes the document with its root, every section that is there, and in it
// every key. What is written loads again as an equal Model.
func (m *Model) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteString(`{"` + rootKey + `":{`)
	writeSections(&b, m, sections())
	b.WriteString("}}")
	return b.Bytes(), nil
}

// writeSections separates with a comma whatever follows something in the same braces.
func writeSections(b *bytes.Buffer, m *Model, list []section) {
	for _, s := range list {
		if !s.present(m) {
			continue
		}
		writeKey(b, s.key)
		b.WriteByte('{')
		for _, f := range s.fields {
			writeKey(b, f.key)
			b.WriteString(f.format(f.ref(m)))
		}
		writeSections(b, m, s.sections)
		b.WriteByte('}')
	}
}

func writeKey(b *bytes.Buffer, key string) {
	if b.Bytes()[b.Len()-1] != '{' {
		b.WriteByte(',')
	}
	b.WriteString(quoteJSON(key) + ":")
}

// quoteJSON writes a text as JSON has it.
func quoteJSON(s string) string {
	text, err := json.Marshal(s)
	if err != nil { // no string makes it fail
		panic("binder: " + err.Error())
	}
	return string(text)
}
