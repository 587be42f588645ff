package attribution

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/ratelimit/outcome"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// The outcomes of the tables.
var (
	good        = Outcome{Class: outcome.OK, Status: 200}
	missing     = Outcome{Class: outcome.ClientError, Status: 404}
	throttled   = Outcome{Class: outcome.Throttled, Status: 429}
	forbidden   = Outcome{Class: outcome.ClientError, Status: 403}
	unavailable = Outcome{Class: outcome.Unavailable, Status: 503}
	overloaded  = Outcome{Class: outcome.Unavailable, Status: 503, Waits: true}
	broken      = Outcome{Class: outcome.ServerError, Status: 500}
	gateway     = Outcome{Class: outcome.Gateway, Status: 502}
	timeout     = Outcome{Class: outcome.Timeout}
	deaf        = Outcome{Class: outcome.Network, Unreachable: true}
	noProxy     = Outcome{Class: outcome.Proxy, Unreachable: true}
	lost        = Outcome{Class: outcome.Network, Lost: true}
	badBody     = Outcome{Class: outcome.Decode, Status: 200}
	cutOff      = Outcome{Class: outcome.Canceled, Status: 200}
)

// Whose a failure is, and whether its URL is asked for again.
func TestDecide(t *testing.T) {
	served := Evidence{Served: true}
	ofURL := Evidence{Served: true, OfURL: true}
	for _, tc := range []struct {
		name    string
		e       Evidence
		tries   Tries
		o       Outcome
		down    bool
		retries int
		want    Decision
	}{
		{"a page", served, Tries{}, good, false, 2, Decision{Nobody, true, Tries{}}},
		{"no page", served, Tries{Attempt: 1}, missing, false, 2, Decision{Nobody, true, Tries{Attempt: 1}}},
		{"an error of the program behind it is final", ofURL, Tries{}, broken, true, 2, Decision{Nobody, true, Tries{}}},
		{"so is a body that cannot be read", ofURL, Tries{}, badBody, true, 2, Decision{Nobody, true, Tries{}}},
		{"a lost connection costs nothing", ofURL, Tries{Attempt: 7}, lost, true, 0, Decision{Nobody, false, Tries{Attempt: 7, Returns: 1, Class: outcome.Network}}},

		{"nobody listens: once more", Evidence{FirstContact: true}, Tries{}, deaf, false, 5, Decision{Either, false, Tries{Attempt: 1, Class: outcome.Network}}},
		{"and that is all", Evidence{FirstContact: true}, Tries{Attempt: 1}, deaf, false, 5, Decision{OfHost, true, Tries{Attempt: 1}}},
		{"nor does a proxy", Evidence{FirstContact: true}, Tries{Attempt: 1}, noProxy, false, 5, Decision{OfHost, true, Tries{Attempt: 1}}},
		{"but not in the middle of a crawl", Evidence{}, Tries{Attempt: 1}, deaf, false, 5, Decision{Either, false, Tries{Attempt: 2, Class: outcome.Network}}},

		{"a 429 is the host's, even if it is the first response", Evidence{}, Tries{}, throttled, false, 0, Decision{OfHost, false, Tries{Returns: 1, Class: outcome.Throttled, Status: 429}}},
		{"a 503 with a time to wait too", Evidence{}, Tries{}, overloaded, false, 0, Decision{OfHost, false, Tries{Returns: 1, Class: outcome.Unavailable, Status: 503}}},
		{"a bare 503 is, of a host that has served", served, Tries{}, unavailable, false, 0, Decision{OfHost, false, Tries{Returns: 1, Class: outcome.Unavailable, Status: 503}}},
		{"of another it may be a page that is always broken", Evidence{}, Tries{}, unavailable, true, 1, Decision{Either, false, Tries{Attempt: 1, Class: outcome.Unavailable, Status: 503}}},
		{"which spends all attempts", Evidence{}, Tries{Attempt: 1}, unavailable, true, 1, Decision{Either, true, Tries{Attempt: 1, Class: outcome.Unavailable, Status: 503}}},
		{"a 403 of a host that has served is the host's", served, Tries{}, forbidden, false, 0, Decision{OfHost, false, Tries{Returns: 1, Forbidden: 1, Class: outcome.ClientError, Status: 403}}},
		{"that of another is final", Evidence{}, Tries{}, forbidden, true, 9, Decision{Either, true, Tries{Forbidden: 1, Class: outcome.ClientError, Status: 403}}},
		{"a time-out may be either's", served, Tries{}, timeout, false, 1, Decision{Either, false, Tries{Attempt: 1, Class: outcome.Timeout}}},
		{"and is the host's while its circuit breaker is open", served, Tries{}, timeout, true, 0, Decision{OfHost, false, Tries{Returns: 1, Class: outcome.Timeout}}},
		{"but for one that has never served", Evidence{}, Tries{}, timeout, true, 0, Decision{Either, true, Tries{Class: outcome.Timeout}}},

		{"a failure of the URL's own", ofURL, Tries{}, gateway, true, 1, Decision{OfURL, false, Tries{Attempt: 1, URLFailures: 1, Class: outcome.Gateway, Status: 502}}},
		{"the last", ofURL, Tries{Attempt: 1, URLFailures: 1}, gateway, true, 1, Decision{OfURL, true, Tries{Attempt: 1, URLFailures: 1, Class: outcome.Gateway, Status: 502}}},
		{"a refusal after another is the second attempt", ofURL, Tries{Returns: 1, Since: 3}, throttled, false, 2, Decision{OfURL, false, Tries{Attempt: 2, URLFailures: 1, Returns: 1, Since: 3, Class: outcome.Throttled, Status: 429}}},
		{"and final if there are no more", ofURL, Tries{Returns: 1}, throttled, false, 1, Decision{OfURL, true, Tries{Attempt: 1, Returns: 1, Class: outcome.Throttled, Status: 429}}},
		{"a time-out after a refusal is the first", ofURL, Tries{Returns: 1}, timeout, false, 1, Decision{OfURL, false, Tries{Attempt: 1, URLFailures: 1, Returns: 1, Class: outcome.Timeout}}},
		{"a 403 of the URL's own is final", ofURL, Tries{}, forbidden, false, 9, Decision{OfURL, true, Tries{Forbidden: 1, Class: outcome.ClientError, Status: 403}}},

		{"for a day the host is waited for", Evidence{Served: true, FailingSince: start.Add(1 - MaxOutage)}, Tries{}, throttled, true, 0, Decision{OfHost, false, Tries{Returns: 1, Class: outcome.Throttled, Status: 429}}},
		{"and no longer", Evidence{Served: true, FailingSince: start.Add(-MaxOutage)}, Tries{}, throttled, true, 9, Decision{OfHost, true, Tries{}}},
		{"no figure overflows", served, Tries{Returns: math.MaxUint16, Forbidden: math.MaxUint8}, forbidden, false, 0, Decision{OfHost, false, Tries{Returns: math.MaxUint16, Forbidden: math.MaxUint8, Class: outcome.ClientError, Status: 403}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := Decide(&Case{Evidence: tc.e, Tries: tc.tries, Outcome: tc.o, Down: tc.down, Retries: tc.retries, Now: start})
			require.Equal(t, tc.want, got)
		})
	}
}

// What an outcome says, by itself.
func TestOutcome(t *testing.T) {
	for _, tc := range []struct {
		o                       Outcome
		served, refused, failed bool
	}{
		{Outcome{}, false, false, false},
		{good, true, false, false},
		{missing, true, false, false},
		{badBody, true, false, false},
		{throttled, false, true, true},
		{forbidden, false, true, true},
		{unavailable, false, true, true},
		{broken, false, false, false},
		{gateway, false, false, true},
		{timeout, false, false, true},
		{noProxy, false, false, true},
		{cutOff, false, false, false},
	} {
		require.Equal(t, []bool{tc.served, tc.refused, tc.failed}, []bool{tc.o.Served(), tc.o.Refused(), tc.o.Failed()}, tc.o)
	}
}

type step struct {
	url     int // which
	subject Subject
	o       Outcome
}

// history plays the steps, one request after another, and returns the tries of the URLs. URLs
// that fail are asked for again.
func history(h *Host, steps ...step) map[int]*Tries {
	urls := map[int]*Tries{}
	for _, s := range steps {
		if urls[s.url] == nil {
			urls[s.url] = new(Tries)
		}
		t := urls[s.url]
		e := h.Begin(s.subject, t)
		h.Ended(&e, t, &s.o)
		if s.subject != Page {
			continue
		}
		d := Decide(&Case{Evidence: e, Tries: *t, Outcome: s.o, Retries: 99, Now: start})
		if !d.Final {
			h.Retried(&e, &d, start)
			*t = d.Tries
		}
	}
	return urls
}

// What the outcomes of a host in their order say of a URL that is leased next: whether a failure
// would be its own, whether it goes before others, whether it goes alone, and whether a control
// request is to go first, where there are fresh URLs for so long and where there are none.
func TestHistory(t *testing.T) {
	page := func(url int, o Outcome) step { return step{url, Page, o} }
	type says struct{ ofURL, clears, now, alone, control, controlAmongOthers bool }
	selective := []step{page(0, good)}
	for url := 1; url <= ManyOfURLs; url++ { // each is refused, another is served, and it is refused again
		selective = append(selective, page(url, throttled), page(0, good), page(url, throttled), page(0, good))
	}
	for _, tc := range []struct {
		name  string
		steps []step
		url   int
		after time.Duration
		want  says
	}{
		{"nothing is known", nil, 1, 0, says{}},
		{"a refusal of one that has never served", []step{page(1, throttled), page(1, throttled)}, 1, 0, says{}},
		{"the first refusal is the host's", []step{page(0, good), page(1, throttled)}, 1, 0, says{}},
		{"after the second a control request shows more", []step{page(0, good), page(1, throttled), page(1, throttled)}, 1, 0, says{control: true}},
		{"among fresh URLs after a while, and more", []step{page(0, good), page(1, throttled), page(1, throttled), page(2, throttled), page(3, throttled)}, 1, longRefusal, says{control: true, controlAmongOthers: true}},
		{"an outage has longer", []step{page(0, good), page(1, timeout), page(2, timeout), page(3, timeout), page(4, timeout), page(5, timeout), page(6, timeout)}, 1, longOutage - 1, says{control: true}},
		{"but not for ever", []step{page(0, good), page(1, timeout), page(2, timeout), page(3, timeout), page(4, timeout), page(5, timeout), page(6, timeout)}, 1, longOutage, says{control: true, controlAmongOthers: true}},
		{"two control requests in a row show no more", []step{page(0, good), page(1, throttled), page(1, throttled), {0, Control, throttled}}, 1, 0, says{}},
		{"the host answers another one", []step{page(0, good), page(1, throttled), page(2, good)}, 1, 0, says{ofURL: true, clears: true, now: true, alone: true}},
		{"or the control request", []step{page(0, good), page(1, throttled), page(1, throttled), {0, Control, good}}, 1, 0, says{ofURL: true, clears: true, now: true, alone: true}},
		{"robots.txt is served by hosts that refuse all else", []step{page(0, good), page(1, throttled), {0, Rules, good}}, 1, 0, says{}},
		{"no robots.txt is no failure of the host", []step{page(0, good), page(1, throttled), page(2, good), {0, Rules, forbidden}}, 1, 0, says{ofURL: true, clears: true, now: true, alone: true}},
		{"one that cannot be had is", []step{page(0, good), page(1, throttled), page(2, good), {0, Rules, timeout}}, 1, 0, says{}},
		{"what is lost says nothing", []step{page(0, good), page(1, throttled), page(2, good), page(3, lost)}, 1, 0, says{ofURL: true, clears: true, now: true, alone: true}},
		{"nor what was cut off", []step{page(0, good), page(1, throttled), page(2, good), page(3, cutOff)}, 1, 0, says{ofURL: true, clears: true, now: true, alone: true}},
		{"the second failure was its own, and so is the third", []step{page(0, good), page(1, throttled), page(2, good), page(1, throttled)}, 1, 0, says{ofURL: true, alone: true}},
		{"of the next one nobody knows: there was no response between", []step{page(0, good), page(1, throttled), page(3, throttled), page(2, good), page(1, throttled)}, 3, 0, says{control: true, controlAmongOthers: true}},
		{"a 500 is a failure of the host", []step{page(0, good), page(1, throttled), page(2, good), page(1, broken)}, 1, 0, says{}},
		{"a connection that fails is isolated by nobody", []step{page(0, good), page(1, timeout), page(2, good)}, 1, 0, says{ofURL: true, now: true}},
		{"a host of several such URLs refuses some and serves others", selective, 9, 0, says{ofURL: true}},
		{"one of them that is served shows a limit", append(slices.Clip(selective), page(1, good)), 9, 0, says{}},
		{"then the second refusal proves nothing", append(slices.Clip(selective), page(1, good), page(9, throttled), page(0, good)), 9, 0, says{now: true, control: false}},
		{"but the third does", append(slices.Clip(selective), page(1, good), page(9, throttled), page(0, good), page(9, throttled), page(0, good), page(9, throttled), page(0, good)), 9, 0, says{ofURL: true, now: true, alone: true}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var h Host
			tries := history(&h, tc.steps...)[tc.url]
			if tries == nil {
				tries = new(Tries)
			}
			got := says{
				now: h.RetryNow(tries), alone: h.Isolated(tries),
				control:            h.WantsControl(tries, false, false, start.Add(tc.after)),
				controlAmongOthers: h.WantsControl(tries, true, false, start.Add(tc.after)),
			}
			e := h.Begin(Page, tries)
			got.ofURL, got.clears = e.OfURL, e.Clears
			require.Equal(t, tc.want, got)
		})
	}
}

// A URL without retries is retried only when a control request was answered.
func TestControlBeforeTheLastAttempt(t *testing.T) {
	var h Host
	tries := history(&h, step{0, Page, good}, step{1, Page, throttled})[1]
	require.True(t, h.WantsControl(tries, false, true, start))
	require.False(t, h.WantsControl(tries, false, false, start))
	require.False(t, h.WantsControl(tries, true, true, start), "others show as much")
}

// A failure that was sent after a request that was served later says that the host fails, and
// each request counts once.
func TestFailing(t *testing.T) {
	var h Host
	first, second := h.Begin(Page, &Tries{}), h.Begin(Page, &Tries{})
	require.EqualValues(t, []uint32{1, 2}, []uint32{first.Number(), second.Number()})
	h.Ended(&second, &Tries{}, &throttled)
	d := Again(Tries{}, OfHost)
	h.Retried(&second, &d, start)
	n, class := h.InRow()
	require.Equal(t, 1, n)
	require.Equal(t, outcome.Throttled, class)
	require.True(t, h.Failing())
	require.True(t, h.Refuses())
	h.Ended(&first, &Tries{}, &good)
	require.True(t, h.Failing(), "it was sent before")
	require.True(t, h.Refuses())
	third := h.Begin(Page, &Tries{})
	require.True(t, third.Served)
	require.False(t, third.FirstContact)
	h.Ended(&third, &Tries{}, &good)
	require.False(t, h.Failing())
	require.False(t, h.Refuses())
	n, _ = h.InRow()
	require.Zero(t, n)
}
