package testsite

import (
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestEveryRetryAfter: the rig's clock begins at 03:04:05.3 of a Friday, and the next request
// is due four seconds later.
func TestEveryRetryAfter(t *testing.T) {
	for _, tc := range []struct {
		form, want string
		wait       time.Duration
		inside     int64 // of one request 3s after the refusal
	}{
		{form: ""},
		{form: retryNone},
		{form: retrySeconds, want: "4", inside: 1},
		{form: retrySeconds, wait: 2500 * ms, want: "3"},
		{form: retryDate, want: "Fri, 02 Jan 2026 03:04:10 GMT", inside: 1},
		{form: retryRFC850, want: "Friday, 02-Jan-26 03:04:10 GMT", inside: 1},
		{form: retryAsctime, want: "Fri Jan  2 03:04:10 2026", inside: 1},
		{form: retryAsctime, wait: time.Second, want: "Fri Jan  2 03:04:07 2026"},
		{form: retryPast, want: "Fri, 02 Jan 2026 02:04:05 GMT"},
		{form: retryPast, wait: 5 * time.Second, want: "Fri, 02 Jan 2026 03:04:00 GMT"},
		{form: retryAbsurd, want: "99999999999"},
		{form: retryGarbage, want: "soon"},
	} {
		t.Run(tc.form+tc.wait.String(), func(t *testing.T) {
			r := newRig(t, one(Host{
				Limits:  []Limiter{{Kind: kindLeaky, Rate: 0.25}},
				Refusal: Refusal{Status: 403, RetryAfter: tc.form, Wait: tc.wait, Body: "slow down"},
			}))
			require.Equal(t, "200", r.status("/"))
			refused := r.get("/")
			require.Equal(t, 403, refused.Code)
			require.Equal(t, "slow down", refused.Body.String())
			require.Equal(t, tc.want, refused.Header().Get("Retry-After"))
			if tc.want != "" && tc.inside == 1 && tc.form != retrySeconds {
				_, err := http.ParseTime(tc.want)
				require.NoError(t, err, "a form of HTTP")
			}
			r.to(3 * time.Second)
			r.get("/")
			got := r.report()
			require.Equal(t, int64(2), got.Refusals, "whatever the status")
			require.Equal(t, tc.inside, got.InsideRetryAfter)
			require.Zero(t, got.Unavailable)
		})
	}
}

func TestRefusalsWith5xxAreNoFailures(t *testing.T) {
	r := newRig(t, one(Host{Limits: []Limiter{{Kind: kindLeaky, Rate: 1}}, Refusal: Refusal{Status: 509}}))
	r.get("/")
	require.Equal(t, "509", r.status("/"))
	got := r.report()
	require.Equal(t, int64(1), got.Unavailable)
	require.Zero(t, got.failed())
	require.InDelta(t, 500, got.RefusedPer1000, 0)
}

// quotaHeaders are those of one answer, in the order of their names below.
func quotaHeaders(h http.Header) []string {
	var got []string
	for _, name := range []string{"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", "RateLimit-Policy", "RateLimit"} {
		got = append(got, h.Get(name))
	}
	return got
}

func TestQuotaHeaders(t *testing.T) {
	legacy := func(limit, remaining, reset int) []string {
		return []string{strconv.Itoa(limit), strconv.Itoa(remaining), strconv.Itoa(reset), "", ""}
	}
	ietf := func(policy, limit string) []string { return []string{"", "", "", policy, limit} }
	for _, tc := range []struct {
		name, headers string
		limit         Limiter
		want          [][]string // of requests at the same instant
	}{
		// The window ends 4.7s later.
		{"window", headersLegacy, Limiter{Kind: kindFixed, Requests: 2, Window: 10 * time.Second}, [][]string{
			legacy(2, 1, 2), legacy(2, 0, 5), legacy(2, 0, 5),
		}},
		{"window", headersIETF, Limiter{Kind: kindFixed, Requests: 2, Window: 10 * time.Second}, [][]string{
			ietf(`"default";q=2;w=10`, `"default";r=1;t=2`), ietf(`"default";q=2;w=10`, `"default";r=0;t=5`),
		}},
		{"sliding", headersLegacy, Limiter{Kind: kindSliding, Requests: 2, Window: 10 * time.Second}, [][]string{
			legacy(2, 1, 4), legacy(2, 0, 5), legacy(2, 0, 5), // refused, until the window ends in 4.7s and the first goes out of view
		}},
		{"bucket", headersLegacy, Limiter{Kind: kindToken, Rate: 0.5, Burst: 3}, [][]string{
			legacy(3, 2, 2), legacy(3, 1, 2), legacy(3, 0, 2), legacy(3, 0, 2),
		}},
		{"leaky", headersIETF, Limiter{Kind: kindLeaky, Rate: 0.5, Burst: 2}, [][]string{
			ietf(`"default";q=3;w=6`, `"default";r=2;t=2`), ietf(`"default";q=3;w=6`, `"default";r=1;t=2`),
			ietf(`"default";q=3;w=6`, `"default";r=0;t=2`), ietf(`"default";q=3;w=6`, `"default";r=0;t=2`),
		}},
		{"log", headersLegacy, Limiter{Kind: kindLog, Requests: 2, Window: 10 * time.Second}, [][]string{
			legacy(2, 1, 5), legacy(2, 0, 10), legacy(2, 0, 10),
		}},
		{"silent", headersNone, Limiter{Kind: kindLog, Requests: 1, Window: 10 * time.Second}, [][]string{
			ietf("", ""), ietf("", ""),
		}},
	} {
		t.Run(tc.name+" "+tc.headers, func(t *testing.T) {
			r := newRig(t, one(Host{Limits: []Limiter{tc.limit}, Refusal: Refusal{Headers: tc.headers}}))
			for i, want := range tc.want {
				require.Equal(t, want, quotaHeaders(r.get("/").Header()), "request %d", i)
			}
		})
	}
}

// Of several limits the one with the least left is told, and a day stretches its reset.
func TestQuotaHeadersOfSeveral(t *testing.T) {
	r := newRig(t, one(Host{
		Limits: []Limiter{{Kind: kindFixed, Requests: 5, Window: 10 * time.Second}, {Kind: kindLog, Requests: 2, Window: time.Minute}, {Kind: kindSlots, Concurrent: 9}},
		Day:    Day{Length: time.Hour, Table: []Hour{{Speed: 0.5}}}, Refusal: Refusal{Headers: headersLegacy},
	}))
	require.Equal(t, []string{"2", "1", "60", "", ""}, quotaHeaders(r.get("/").Header()))
}
