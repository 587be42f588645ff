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
	terms := (&Rule{Name: "r", Plans: []string{plan.Name}}).terms(reg.current())
	for _, res := range []Result{
		{Allowed: true, Limit: plan.Capacity, Remaining: plan.Capacity - 1, Reset: maxWindow, Plan: plan.Name},
		{Allowed: true, Limit: 1, Plan: plan.Name},
		{Allowed: true, Limit: 1, Reset: 1, Plan: plan.Name},
		{Limit: 10, Wait: time.Second, Reset: time.Hour, Plan: plan.Name, Reason: ReasonLimited},
		{Limit: 10, Remaining: 9, Wait: time.Second + 1, Plan: plan.Name, Reason: ReasonLimited},
		{Limit: 10, Remaining: 9, Wait: Never, Reset: time.Minute, Plan: plan.Name, Reason: ReasonTooLarge},
	} {
		got, want := http.Header{}, http.Header{}
		HeadersBoth.tell(got, terms, &res, nil)

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

func TestTerms(t *testing.T) {
	one, two := Plan{Name: "one", Capacity: 10, TokensPerSecond: 1}, Plan{Name: "two", Capacity: 30, TokensPerSecond: 1}
	reg, err := NewRegistry(one, two)
	require.NoError(t, err)
	terms := (&Rule{Name: "r", Plans: []string{"two", "one", "two"}}).terms(reg.current())
	require.Len(t, terms.plans, 2, "each plan counts once")
	require.Equal(t, `"two";q=30;w=30, "one";q=10;w=10`, terms.policy)
	require.Equal(t, int64(10), terms.planOf(&Result{Plan: "one"}).Capacity)
	require.Nil(t, terms.planOf(&Result{Plan: "r" + slotsSuffix}))
	require.Equal(t, limitFields{"30", "30;w=30"}, terms.limitOf(&Result{Plan: "two", Limit: 30}))
	require.Equal(t, limitFields{"15", "15;w=30"}, terms.limitOf(&Result{Plan: "two", Limit: 15}), "of a fallback's share")
}
