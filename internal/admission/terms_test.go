package admission

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTerms(t *testing.T) {
	one, two := Plan{Name: "one", Capacity: 10, TokensPerSecond: 1}, Plan{Name: "two", Capacity: 30, TokensPerSecond: 1}
	reg, err := NewRegistry(one, two)
	require.NoError(t, err)
	before := reg.current()
	rule := &compiledRule{Rule: Rule{Name: "r", Plans: []string{"two", "one", "two"}}, plans: before}
	terms := rule.termsIn(before)
	require.True(t, terms.whole)
	require.Same(t, terms, rule.termsIn(before), "they are made once")
	require.Len(t, terms.plans, 2, "each plan counts once")
	require.Equal(t, `"two";q=30;w=30, "one";q=10;w=10`, terms.policy)

	require.Equal(t, int64(10), terms.planOf(&Result{Plan: "one"}).Capacity)
	require.Nil(t, terms.planOf(&Result{Plan: "r" + slotsSuffix}))
	require.Equal(t, limitFields{"30", "30;w=30"}, terms.limitOf(&Result{Plan: "two", Limit: 30}))
	require.Equal(t, limitFields{"15", "15;w=30"}, terms.limitOf(&Result{Plan: "two", Limit: 15}), "of a fallback's share")

	require.NoError(t, reg.Put(Plan{Name: "one", Capacity: 5, TokensPerSecond: 1}))
	terms = rule.termsIn(reg.current())
	require.True(t, terms.whole)
	require.Equal(t, limitFields{"5", "5;w=5"}, terms.limitOf(&Result{Plan: "one", Limit: 5}), "they follow the registry")

	require.NoError(t, reg.Remove("one"))
	terms = rule.termsIn(reg.current())
	require.False(t, terms.whole)
	require.Same(t, before, terms.set, "where all plans of the rule are")
	require.Len(t, terms.plans, 2)
}
