package admit

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/admission"
)

// whole requires that every exported field of a struct is set, so that a new one must be set here too.
func whole(t *testing.T, v any) {
	t.Helper()
	of := reflect.ValueOf(v)
	for i := range of.NumField() {
		if f := of.Type().Field(i); f.IsExported() {
			require.False(t, of.Field(i).IsZero(), "set %T.%s", v, f.Name)
		}
	}
}

// The types that programs see have all that those behind them have, under the same names in JSON.
func TestConversionsLoseNothing(t *testing.T) {
	same := func(from, to any) {
		whole(t, from)
		whole(t, to)
		a, err := json.Marshal(from)
		require.NoError(t, err)
		b, err := json.Marshal(to)
		require.NoError(t, err)
		require.JSONEq(t, string(a), string(b))
	}
	d := admission.Denial{RateLimited: true, Rule: "r", Shadow: true, Status: 429, Method: "GET", Path: "/", Key: "k", Result: admission.Result{
		Allowed: true, Limit: 1, Remaining: 2, Wait: 3, Reset: 4, Plan: "p", Reason: "LIMITED",
	}}
	same(d, denialOf(&d))
	require.Equal(t, "k", denialOf(&d).Key)
	same(d.Result, resultOf(&d.Result))
	s := admission.Statistics{
		Allowed: 1, Denied: 2, Failures: 3, Fallbacks: 4, Timeouts: 5, FailedOpen: 6, FailedClosed: 7, Exempt: 8, Down: true,
		Rules: []admission.RuleStatistics{{Rule: "r", Allowed: 1, Denied: 2, Shadowed: 3}},
	}
	same(s, statisticsOf(&s))

	p := Plan{Name: "n", Kind: "fixed-window", Capacity: 1, TokensPerSecond: 2, Window: time.Second}
	r := Rule{
		Name: "n", Path: "/", Methods: []string{"GET"}, Key: "ip", Plans: []string{"p"}, Cost: 1, CostBy: "c", Concurrency: 2,
		Wait: 3, Shadow: true, OnError: "open",
	}
	whole(t, p)
	whole(t, r)
	require.Equal(t, fmt.Sprintf("%+v", p), fmt.Sprintf("%+v", planOf(&p)))
	require.Equal(t, fmt.Sprintf("%+v", r), fmt.Sprintf("%+v", ruleOf(&r)))
	require.Nil(t, each[Rule](nil, ruleOf), "no list means the default")
	require.NotNil(t, each([]Rule{}, ruleOf), "a list of no rules is none")
}
