package binder

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/treadlight/crawl/internal/document"
)

// Model is a checked document. A nil section was not written, and its policy is absent. Every value is in range, and
// defaults are filled in. Nothing changes a Model after it was loaded, so goroutines may share it. The zero Model has
// no policies.
//
// The tag of a field is its key, default, least and greatest value, for the loader, the writer and messages. The bounds
// only catch slips, such as milliseconds in place of seconds.
type Model struct {
	Retry             *Retry             `doc:"Retry"`             // tries again what has failed
	Timeout           *Timeout           `doc:"Timeout"`           // bounds each attempt
	CircuitBreaker    *CircuitBreaker    `doc:"CircuitBreaker"`    // stops calls to what keeps failing
	Bulkhead          *Bulkhead          `doc:"Bulkhead"`          // bounds the calls in flight
	BulkheadIsolation *BulkheadIsolation `doc:"BulkheadIsolation"` // bounds the calls in flight for each key
	Hedging           *Hedging           `doc:"Hedging"`           // starts a second call beside a slow one
	Fallback          *Fallback          `doc:"Fallback"`          // replaces a failed result
}

// Retry says how often and how soon a failed call is tried again.
type Retry struct {
	MaxRetries int     `doc:"MaxRetries,3,0,100"` // tries after the first; ignored with Forever
	Forever    bool    `doc:"RetryForever,false"` // try until a call succeeds or its context ends
	Backoff    Backoff `doc:"Backoff"`            // the pauses between tries
}

// Backoff says how the pause grows from one try to the next. Every field is optional.
type Backoff struct {
	Type     BackoffType   `doc:"Type,exponential"`            // how the pause grows
	Base     time.Duration `doc:"BaseMs,200,1,3600000"`        // first pause; if only MaxDelay is written, at most MaxDelay
	MaxDelay time.Duration `doc:"MaxDelayMs,30000,1,86400000"` // longest pause; if only Base is written, at least Base
	// Jitter replaces each constant, linear and exponential pause by a random one from zero up to it (full jitter).
	Jitter bool `doc:"UseJitter,true"`
}

// BackoffType names how the pause grows, as documents spell it.
type BackoffType string

// The values of BackoffType.
const (
	BackoffNone         BackoffType = "none"               // no pause at all
	BackoffConstant     BackoffType = "constant"           // always Base
	BackoffLinear       BackoffType = "linear"             // Base times the number of failures
	BackoffExponential  BackoffType = "exponential"        // Base, doubled with each failure
	BackoffDecorrelated BackoffType = "decorrelatedJitter" // random between Base and three times the pause before
)

// Timeout bounds one attempt, to the end of its response. The caller's context bounds all attempts together.
type Timeout struct {
	Limit time.Duration `doc:"Seconds,30,0.001,86400"` // time for one attempt
}

// CircuitBreaker stops calls to what keeps failing.
type CircuitBreaker struct {
	Name             string        `doc:"CircuitName,default"`          // 1 to 100 printable bytes; documents with the same name may share one breaker (Deps.Breakers)
	FailureThreshold int           `doc:"FailureThreshold,5,1,1000000"` // failures in a row that open it
	SuccessThreshold int           `doc:"SuccessThreshold,1,1,65535"`   // successes that close it again
	Break            time.Duration `doc:"BreakSeconds,30,0.001,86400"`  // how long it stays open
}

// Bulkhead bounds the calls in flight.
type Bulkhead struct {
	MaxConcurrency int           `doc:"MaxConcurrency,10,1,100000"`     // greatest number of calls in flight
	MaxQueue       int           `doc:"MaxQueueDepth,100,0,1000000"`    // how many more calls may wait
	QueueTimeout   time.Duration `doc:"QueueTimeoutSeconds,10,0,86400"` // how long a call may wait; 0 means not at all
}

// BulkheadIsolation bounds the calls in flight for each key, which for HTTP is the host.
type BulkheadIsolation struct {
	MaxConcurrency int           `doc:"MaxConcurrentRequests,10,1,100000"` // greatest number of calls in flight for one key
	MaxQueue       int           `doc:"MaxQueueSize,100,0,1000000"`        // how many more calls of one key may wait
	QueueTimeout   time.Duration `doc:"QueueTimeoutSeconds,10,0,86400"`    // how long a call may wait; 0 means not at all
}

// Hedging starts another request when the first is slow.
type Hedging struct {
	After       time.Duration `doc:"HedgeAfterMs,200,1,3600000"` // how long the latest attempt may take before another starts
	MaxAttempts int           `doc:"MaxHedgedAttempts,1,1,10"`   // how many may be started beside the first
}

// Fallback says which results are replaced; the program gives the replacement.
type Fallback struct {
	StatusCodes []int `doc:"StatusCodes,500 502 503 504,100,599"` // the statuses to replace, without repetition; errors are always replaced
}

// Equal reports whether two documents have the same sections and values.
func (m *Model) Equal(o *Model) bool { return reflect.DeepEqual(m, o) }

// MarshalJSON writes the document with its group "Resilience" and every key of each section. Load makes an equal Model
// of it.
func (m *Model) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteString(`{"` + rootKey + `":`)
	write(&b, reflect.ValueOf(m).Elem())
	b.WriteByte('}')
	return b.Bytes(), nil
}

// write writes the fields of a struct, without sections that are nil.
func write(b *bytes.Buffer, v reflect.Value) {
	comma := "{"
	for i, f := range fieldsOf(v.Type()) {
		to := reflect.Indirect(v.Field(i))
		if !to.IsValid() {
			continue
		}
		b.WriteString(comma + `"` + f.key + `":`)
		if comma = ","; to.Kind() == reflect.Struct {
			write(b, to)
		} else {
			b.WriteString(f.format(to.Addr().Interface()))
		}
	}
	if comma == "{" {
		b.WriteString(comma)
	}
	b.WriteByte('}')
}

// maxName is the greatest length, in bytes, of a name, which goes into logs and metrics.
const maxName = 100

type field struct {
	key      string
	snake    string  // as YAML files spell it
	def      string  // the default as a document would have it
	min, max float64 // inclusive, in the document's unit; unused for texts and switches
}

var byType sync.Map

func fieldsOf(group reflect.Type) []field {
	if known, ok := byType.Load(group); ok {
		return known.([]field)
	}
	all := make([]field, group.NumField())
	for i := range all {
		parts := append(strings.Split(group.Field(i).Tag.Get("doc"), ","), "", "", "")
		all[i] = field{key: parts[0], def: parts[1], snake: document.Snake(parts[0])}
		all[i].min, _ = strconv.ParseFloat(parts[2], 64) // stays 0 if there is no bound
		all[i].max, _ = strconv.ParseFloat(parts[3], 64)
	}
	byType.Store(group, all)
	return all
}

func find(fields []field, key string) int {
	return slices.IndexFunc(fields, func(f field) bool { return key == f.key || key == f.snake })
}

func (f *field) unit() time.Duration {
	if strings.HasSuffix(f.key, "Seconds") {
		return time.Second
	}
	return time.Millisecond
}

// want returns the end of the sentence "give …": what a right value looks like. v points to it.
func (f *field) want(v any) string {
	between := fmt.Sprintf("from %s to %s", number(f.min), number(f.max))
	switch v.(type) {
	case *bool:
		return "true or false"
	case *string:
		return fmt.Sprintf("a name of 1 to %d printable bytes", maxName)
	case *BackoffType:
		return "one of none, constant, linear, exponential, decorrelatedJitter"
	case *[]int:
		return "a list of statuses " + between
	case *time.Duration:
		if f.unit() == time.Second {
			return "a number of seconds " + between
		}
		return "a number of milliseconds " + between
	}
	return "a whole number " + between
}

func number(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }

var separators = strings.NewReplacer("-", "", "_", "")

// store parses text into v. The default of a list is one text. An error says what is wrong and what to give instead.
func (f *field) store(v any, text string) (err error) {
	want := f.want(v)
	wrong := func(is string) error { return fmt.Errorf("%s is %s; give %s", document.Quote(text), is, want) }
	between := func(x float64) error {
		switch {
		case err != nil:
			return err
		case x < f.min:
			return wrong("below " + number(f.min))
		case x > f.max:
			return wrong("above " + number(f.max))
		}
		return nil
	}
	switch v := v.(type) {
	case *bool:
		*v, err = document.ParseBool(text, want)
	case *int:
		var n int64
		n, err = document.ParseInt(text, want)
		*v = int(n)
		return between(float64(n))
	case *time.Duration: // within the bounds, a float64 is exact to the nanosecond
		var x float64
		x, err = document.ParseFloat(text, want)
		*v = time.Duration(x*float64(f.unit()) + 0.5)
		return between(x)
	case *BackoffType:
		all := []BackoffType{BackoffNone, BackoffConstant, BackoffLinear, BackoffExponential, BackoffDecorrelated}
		i := slices.IndexFunc(all, func(t BackoffType) bool { return strings.EqualFold(string(t), separators.Replace(text)) })
		if i < 0 {
			return wrong("not a type")
		}
		*v = all[i]
	case *string:
		*v = text
		if text == "" || len(text) > maxName || !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
			return wrong("no name")
		}
	case *[]int:
		err = json.Unmarshal([]byte("["+strings.ReplaceAll(text, " ", ",")+"]"), v)
	}
	return err
}

// format returns what v points to as JSON that store can read back.
func (f *field) format(v any) string {
	if d, ok := v.(*time.Duration); ok {
		return number(float64(*d) / float64(f.unit()))
	}
	text, err := json.Marshal(v)
	if err != nil { // cannot happen with the types in a Model
		panic("binder: " + err.Error())
	}
	return string(text)
}
