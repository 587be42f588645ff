package effort

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSpend(t *testing.T) {
	b := New(t.Context(), 10, nil, time.Time{})
	require.True(t, b.Spend(10))
	require.False(t, b.Spent())
	require.False(t, b.Spend(1))
	require.False(t, b.Spend(0), "spent once is spent for good")
	require.True(t, b.Spent())
	require.Equal(t, int64(11), b.Used())

	var none *Budget
	require.True(t, none.Spend(math.MaxInt))
	require.False(t, none.Spent())
	require.Zero(t, none.Used())
	none.DropDeadline()
}

func TestSpendText(t *testing.T) {
	b := New(t.Context(), 100, nil, time.Time{})
	b.SpendText(0)
	b.SpendText(Bytes - 1)
	b.SpendText(10 * Bytes)
	require.Equal(t, int64(1+1+11), b.Used())
}

// A call that cannot be interrupted is refused beyond a bound, whatever is left, and takes nothing below it.
func TestAllowCall(t *testing.T) {
	b := New(t.Context(), math.MaxInt64, nil, time.Time{})
	require.True(t, b.AllowCall(maxCall))
	require.Zero(t, b.Used())
	require.False(t, b.AllowCall(maxCall+1))
	require.True(t, b.Spent())
	require.False(t, b.AllowCall(0), "spent once is spent for good")
	require.False(t, b.Spend(0))

	var none *Budget
	require.True(t, none.AllowCall(math.MaxInt))
}

func spends(b *Budget) (n int) {
	for b.Spend(1) && n < 10*lookEvery {
		n++
	}
	return n
}

// The deadline and the end of the context are seen within the steps between two looks.
func TestDeadlineAndContext(t *testing.T) {
	now := time.Unix(0, 0)
	clock := func() time.Time { return now }
	b := New(t.Context(), math.MaxInt64, clock, time.Unix(1, 0))
	require.True(t, b.Spend(3*lookEvery))
	now = time.Unix(1, 0)
	require.LessOrEqual(t, spends(b), lookEvery)

	b = New(t.Context(), math.MaxInt64, clock, time.Unix(1, 0))
	b.DropDeadline()
	require.Equal(t, 10*lookEvery, spends(b))

	ctx, cancel := context.WithCancel(t.Context())
	b = New(ctx, math.MaxInt64, nil, time.Time{})
	require.True(t, b.Spend(3*lookEvery))
	cancel()
	require.LessOrEqual(t, spends(b), lookEvery)
}

func TestSteps(t *testing.T) {
	require.Equal(t, int64(share), Steps(0, math.MaxInt64))
	require.Equal(t, int64(share+1000*perByte), Steps(1000, math.MaxInt64))
	require.Equal(t, int64(5), Steps(1000, 5))
}
