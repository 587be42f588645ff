package admission_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/admission"
)

func TestSettle(t *testing.T) {
	p, err := admission.Plan{Name: "p", Capacity: 1, TokensPerSecond: 1}.Settle()
	require.NoError(t, err)
	require.Equal(t, admission.KindTokenBucket, p.Kind, "the default")

	bucket := admission.Plan{Name: "p", Kind: admission.KindTokenBucket, Capacity: 5, TokensPerSecond: 1}
	window := admission.Plan{Name: "p", Kind: admission.KindFixedWindow, Capacity: 5, Window: time.Second}
	for _, tc := range []struct {
		field string
		plan  admission.Plan
		edit  func(*admission.Plan)
	}{
		{"name", bucket, func(p *admission.Plan) { p.Name = "" }},
		{"name", bucket, func(p *admission.Plan) { p.Name = "a:b" }},
		{"name", bucket, func(p *admission.Plan) { p.Name = "é" }},
		{"name", bucket, func(p *admission.Plan) { p.Name = strings.Repeat("p", 65) }},
		{"kind", bucket, func(p *admission.Plan) { p.Kind = "leaky" }},
		{"capacity", bucket, func(p *admission.Plan) { p.Capacity = 0 }},
		{"capacity", window, func(p *admission.Plan) { p.Capacity = -1 }},
		{"capacity", window, func(p *admission.Plan) { p.Capacity = admission.MaxCapacity + 1 }},
		{"tokens_per_second", bucket, func(p *admission.Plan) { p.TokensPerSecond = 0 }},
		{"tokens_per_second", bucket, func(p *admission.Plan) { p.TokensPerSecond = -1 }},
		{"tokens_per_second", bucket, func(p *admission.Plan) { p.TokensPerSecond = 1e10 }},
		{"tokens_per_second", bucket, func(p *admission.Plan) { p.TokensPerSecond = math.NaN() }},
		{"tokens_per_second", bucket, func(p *admission.Plan) { p.TokensPerSecond = math.Inf(1) }},
		{"tokens_per_second", window, func(p *admission.Plan) { p.TokensPerSecond = 1 }},
		{"window", bucket, func(p *admission.Plan) { p.Window = time.Second }},
		{"window", window, func(p *admission.Plan) { p.Window = 0 }},
		{"window", window, func(p *admission.Plan) { p.Window = time.Microsecond }},
		{"window", window, func(p *admission.Plan) { p.Window = 367 * 24 * time.Hour }},
		{"window", window, func(p *admission.Plan) { p.Window = time.Second + 1 }},
	} {
		tc.edit(&tc.plan)
		_, err := tc.plan.Settle()
		require.ErrorIs(t, err, admission.ErrInvalidPlan, "%+v", tc.plan)
		var wrong *admission.FieldError
		require.ErrorAs(t, err, &wrong)
		require.Equal(t, tc.field, wrong.Field, "%+v", tc.plan)
	}
}

func TestPlanTimes(t *testing.T) {
	for _, tc := range []struct {
		plan        admission.Plan
		period, ttl time.Duration
		window      time.Duration
	}{
		{admission.Plan{Capacity: 10, TokensPerSecond: 2}, 5 * time.Second, 5 * time.Second, 5 * time.Second},
		{admission.Plan{Capacity: 1, TokensPerSecond: 3}, 333334 * time.Microsecond, time.Second, 333334 * time.Microsecond},
		{admission.Plan{Capacity: 1, TokensPerSecond: 1e9}, time.Microsecond, time.Second, time.Microsecond},
		{
			admission.Plan{Capacity: admission.MaxCapacity, TokensPerSecond: 1e-9},
			36600 * 24 * time.Hour, 36600 * 24 * time.Hour, 36600 * 24 * time.Hour,
		},
		{admission.Plan{Kind: admission.KindFixedWindow, Capacity: 5, Window: time.Minute}, time.Minute, time.Minute, time.Minute},
		{admission.Plan{Kind: admission.KindSlidingWindow, Capacity: 5, Window: time.Minute}, 2 * time.Minute, 2 * time.Minute, time.Minute},
		{admission.Plan{Kind: admission.KindFixedWindow, Capacity: 5, Window: time.Millisecond}, time.Millisecond, time.Second, time.Millisecond},
	} {
		tc.plan.Name = "p"
		p := settled(t, tc.plan)
		require.Equal(t, tc.period, p.Period(), "Period of %+v", p)
		require.Equal(t, tc.ttl, p.TTL(), "TTL of %+v", p)
		tokens, window := p.PerWindow()
		require.Equal(t, p.Capacity, tokens)
		require.Equal(t, tc.window, window, "PerWindow of %+v", p)
	}
}

func TestPlanJSON(t *testing.T) {
	p := settled(t, admission.Plan{Name: "login", Kind: admission.KindSlidingWindow, Capacity: 5, Window: time.Minute})
	text, err := json.Marshal(p)
	require.NoError(t, err)
	require.JSONEq(t, `{"name":"login","kind":"sliding-window","capacity":5,"window":"1m0s"}`, string(text))

	for _, tc := range []struct{ text, field string }{
		{`{"name":"p","capacity":1,"tokens_per_second":1,"burst":2}`, "burst"},
		{`{"name":3,"capacity":1,"tokens_per_second":1}`, "name"},
		{`{"name":"p","capacity":1.5,"tokens_per_second":1}`, "capacity"},
		{`{"name":"p","capacity":1e300,"tokens_per_second":1}`, "capacity"},
		{`{"name":"p","capacity":"1","tokens_per_second":1}`, "capacity"},
		{`{"name":"p","capacity":1,"tokens_per_second":1e999}`, "tokens_per_second"},
		{`{"name":"p","kind":"fixed-window","capacity":1,"window":60}`, "window"},
		{`{"name":"p","kind":"fixed-window","capacity":1,"window":"60"}`, "window"},
		{`{"name":"p","kind":null,"capacity":1,"window":"1m"}`, "kind"},
		{`[]`, "name"},
	} {
		var p admission.Plan
		err := json.Unmarshal([]byte(tc.text), &p)
		var wrong *admission.FieldError
		require.ErrorAs(t, err, &wrong, tc.text)
		require.Equal(t, tc.field, wrong.Field, tc.text)
		require.Zero(t, p, "nothing is set on an error")
	}
}
