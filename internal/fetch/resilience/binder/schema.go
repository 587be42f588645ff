package binder

import "time"

// rootKey is the optional name around all sections.
const rootKey = "Resilience"

// section is one group of keys: what it is called, what is in it, and where the model has
// it. Loader, writer and suggestions all read this table, so that they cannot disagree.
type section struct {
	key      string
	present  func(*Model) bool
	create   func(*Model) // nil for one that is always there
	fields   []field
	sections []section
}

// field is one key.
type field struct {
	key      string
	def      string           // as it would be written
	min, max float64          // both inclusive, as written; not for texts and switches
	unit     time.Duration    // of a duration: what 1 is
	ref      func(*Model) any // pointer to the value; its type is the kind
}

// Bounds of what may be written. None is a recommendation: beyond them lies a slip, such
// as milliseconds where seconds belong.
const (
	maxRetries     = 100        // as many as the crawl's own retries
	maxConcurrency = 100_000    // connections one process can have
	maxQueue       = 1_000_000  // waiters, each of which costs a goroutine
	maxFailures    = 1_000_000  // in a row, at any rate a human would wait for
	maxSuccesses   = 65_535     // what the breaker's machine counts to
	maxHedges      = 10         // beyond, hedging is an attack
	maxSeconds     = 86_400     // a day
	maxMs          = 3_600_000  // an hour
	maxDelayMs     = 86_400_000 // a day
	minSeconds     = 0.001      // a millisecond: below, timers are noise
	maxName        = 100        // bytes of a name that goes into logs and metrics
	maxCodes       = 500        // there are not more statuses
)

// sections is the document. Defaults are those of the format's origin, but for the pauses
// between retries, whose reason is at [Backoff].
func sections() []section {
	return []section{
		{
			key: "Retry", present: func(m *Model) bool { return m.Retry != nil }, create: func(m *Model) { m.Retry = new(Retry) },
			fields: []field{
				{key: "MaxRetries", def: "3", max: maxRetries, ref: func(m *Model) any { return &m.Retry.MaxRetries }},
				{key: "RetryForever", def: "false", ref: func(m *Model) any { return &m.Retry.Forever }},
			},
			sections: []section{backoffSection()},
		},
		{
			key: "Timeout", present: func(m *Model) bool { return m.Timeout != nil }, create: func(m *Model) { m.Timeout = new(Timeout) },
			fields: []field{
				{key: "Seconds", def: "30", min: minSeconds, max: maxSeconds, unit: time.Second, ref: func(m *Model) any { return &m.Timeout.Limit }},
			},
		},
		breakerSection(),
		{
			key: "Bulkhead", present: func(m *Model) bool { return m.Bulkhead != nil }, create: func(m *Model) { m.Bulkhead = new(Bulkhead) },
			fields: []field{
				{key: "MaxConcurrency", def: "10", min: 1, max: maxConcurrency, ref: func(m *Model) any { return &m.Bulkhead.MaxConcurrency }},
				{key: "MaxQueueDepth", def: "100", max: maxQueue, ref: func(m *Model) any { return &m.Bulkhead.MaxQueue }},
				{key: "QueueTimeoutSeconds", def: "10", max: maxSeconds, unit: time.Second, ref: func(m *Model) any { return &m.Bulkhead.QueueTimeout }},
			},
		},
		isolationSection(),
		{
			key: "Hedging", present: func(m *Model) bool { return m.Hedging != nil }, create: func(m *Model) { m.Hedging = new(Hedging) },
			fields: []field{
				{key: "HedgeAfterMs", def: "200", min: 1, max: maxMs, unit: time.Millisecond, ref: func(m *Model) any { return &m.Hedging.After }},
				{key: "MaxHedgedAttempts", def: "1", min: 1, max: maxHedges, ref: func(m *Model) any { return &m.Hedging.MaxAttempts }},
			},
		},
		{
			key: "Fallback", present: func(m *Model) bool { return m.Fallback != nil }, create: func(m *Model) { m.Fallback = new(Fallback) },
			fields: []field{
				{key: "StatusCodes", def: "500,502,503,504", min: 100, max: 599, ref: func(m *Model) any { return &m.Fallback.StatusCodes }},
			},
		},
	}
}

func backoffSection() section {
	return section{
		key: "Backoff", present: func(*Model) bool { return true },
		fields: []field{
			{key: "Type", def: string(BackoffExponential), ref: func(m *Model) any { return &m.Retry.Backoff.Type }},
			{key: "BaseMs", def: "200", min: 1, max: maxMs, unit: time.Millisecond, ref: func(m *Model) any { return &m.Retry.Backoff.Base }},
			{key: "MaxDelayMs", def: "30000", min: 1, max: maxDelayMs, unit: time.Millisecond, ref: func(m *Model) any { return &m.Retry.Backoff.MaxDelay }},
			{key: "UseJitter", def: "true", ref: func(m *Model) any { return &m.Retry.Backoff.Jitter }},
		},
	}
}

func breakerSection() section {
	return section{
		key: "CircuitBreaker", present: func(m *Model) bool { return m.CircuitBreaker != nil },
		create: func(m *Model) { m.CircuitBreaker = new(CircuitBreaker) },
		fields: []field{
			{key: "CircuitName", def: "default", ref: func(m *Model) any { return &m.CircuitBreaker.Name }},
			{key: "FailureThreshold", def: "5", min: 1, max: maxFailures, ref: func(m *Model) any { return &m.CircuitBreaker.FailureThreshold }},
			{key: "SuccessThreshold", def: "1", min: 1, max: maxSuccesses, ref: func(m *Model) any { return &m.CircuitBreaker.SuccessThreshold }},
			{key: "BreakSeconds", def: "30", min: minSeconds, max: maxSeconds, unit: time.Second, ref: func(m *Model) any { return &m.CircuitBreaker.Break }},
		},
	}
}

func isolationSection() section {
	return section{
		key: "BulkheadIsolation", present: func(m *Model) bool { return m.BulkheadIsolation != nil },
		create: func(m *Model) { m.BulkheadIsolation = new(BulkheadIsolation) },
		fields: []field{
			{key: "MaxConcurrentRequests", def: "10", min: 1, max: maxConcurrency, ref: func(m *Model) any { return &m.BulkheadIsolation.MaxConcurrency }},
			{key: "MaxQueueSize", def: "100", max: maxQueue, ref: func(m *Model) any { return &m.BulkheadIsolation.MaxQueue }},
			{key: "QueueTimeoutSeconds", def: "10", max: maxSeconds, unit: time.Second, ref: func(m *Model) any { return &m.BulkheadIsolation.QueueTimeout }},
		},
	}
}
