package admission

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/ratelimit/header"
)

// TestHeadersAreThoseOfTheWriters compares what is put together on the way of each
// request with what package header writes.
func TestHeadersAreThoseOfTheWriters(t *testing.T) {
	plan, err := Plan{Name: strings.Repeat("n", maxName), Kind: KindFixedWindow, Capacity: MaxCapacity, Window: maxWindow}.Settle()
	require.NoError(t, err)
	reg, err := NewRegistry(plan)
	require.NoError(t, err)
	rule := &compiledRule{Rule: Rule{Name: "r", Plans: []string{plan.Name}}}
	for _, res := range []Result{
		{Allowed: true, Limit: plan.Capacity, Remaining: plan.Capacity - 1, Reset: maxWindow, Plan: plan.Name},
		{Allowed: true, Limit: 1, Plan: plan.Name},
		{Allowed: true, Limit: 1, Reset: 1, Plan: plan.Name},
		{Limit: 10, Wait: time.Second, Reset: time.Hour, Plan: plan.Name, Reason: ReasonLimited},
		{Limit: 10, Remaining: 9, Wait: time.Second + 1, Plan: plan.Name, Reason: ReasonLimited},
		{Limit: 10, Remaining: 9, Wait: Never, Reset: time.Minute, Plan: plan.Name, Reason: ReasonTooLarge},
	} {
		got, want := http.Header{}, http.Header{}
		HeadersBoth.tell(got, rule.termsIn(reg.current()), &res, nil)

		left, reset := res.told(&plan)
		seconds := header.FormatRetryAfter(reset)
		want.Set("X-RateLimit-Limit", strconv.FormatInt(res.Limit, 10))
		want.Set("X-RateLimit-Remaining", strconv.FormatInt(left, 10))
		want.Set("X-RateLimit-Reset", seconds)
		want.Set("RateLimit", fmt.Sprintf(`"%s";r=%d;t=%s`, res.Plan, left, seconds))
		value, err := header.FormatPolicies([]header.Policy{{Name: plan.Name, Quota: plan.Capacity, Window: plan.Window}})
		require.NoError(t, err)
		want.Set("RateLimit-Policy", value)
		require.Equal(t, want, got)

		for name := range got { // each value has a list of its own
			got.Add(name, "x")
		}
		for name := range got {
			require.Equal(t, append(want[name], "x"), got[name])
		}
	}
}
