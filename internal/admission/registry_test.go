package admission_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/admission"
)

var (
	login = admission.Plan{Name: "login", Kind: admission.KindFixedWindow, Capacity: 5, Window: time.Minute}
	api   = admission.Plan{Name: "api", Kind: admission.KindTokenBucket, Capacity: 100, TokensPerSecond: 1.5}
	daily = admission.Plan{Name: "daily", Kind: admission.KindSlidingWindow, Capacity: 1000, Window: 24 * time.Hour}
)

func registry(t *testing.T, plans ...admission.Plan) *admission.Registry {
	t.Helper()
	r, err := admission.NewRegistry(plans...)
	require.NoError(t, err)
	return r
}

func TestRegistryChanges(t *testing.T) {
	var r admission.Registry
	require.Empty(t, r.Plans(), "the zero Registry")
	require.NoError(t, r.Put(login))
	require.NoError(t, r.Put(admission.Plan{Name: "api", Capacity: 100, TokensPerSecond: 1.5}))
	require.Equal(t, []admission.Plan{login, api}, r.Plans(), "settled, in the order they came")

	stricter := login
	stricter.Capacity = 3
	require.NoError(t, r.Put(stricter))
	require.Equal(t, []admission.Plan{stricter, api}, r.Plans(), "in its place")
	require.ErrorIs(t, r.Put(admission.Plan{Name: "x"}), admission.ErrInvalidPlan)

	require.NoError(t, r.Remove("login"))
	require.ErrorIs(t, r.Remove("login"), admission.ErrUnknownPlan)
	_, ok := r.Plan("login")
	require.False(t, ok)
	p, ok := r.Plan("api")
	require.True(t, ok)
	require.Equal(t, api, p)

	require.EqualError(t, r.Replace(login, api, login), `plans[2].name is "login": use another name, plans[0] has it`)
	require.Equal(t, []admission.Plan{api}, r.Plans(), "an error changes nothing")
	r.Plans()[0].Capacity = 1
	require.Equal(t, []admission.Plan{api}, r.Plans(), "the slice is the caller's")
}

func TestRegistryIsBounded(t *testing.T) {
	plans := make([]admission.Plan, 10_000)
	for i := range plans {
		plans[i] = login
		plans[i].Name = fmt.Sprint(i)
	}
	r := registry(t, plans...)
	require.ErrorContains(t, r.Put(login), "remove one first")
	require.ErrorContains(t, r.Replace(append(plans, login)...), "no more than 10000")
}
