//go:build unix

package redis_test

import (
	"encoding/binary"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/admission"
	"github.com/treadlight/crawl/internal/admission/redis"
)

func TestStoreKey(t *testing.T) {
	for _, tc := range []struct{ key, want string }{
		{"ann", "rate_limiter:gold:{ann}"},
		{"", "rate_limiter:gold:{%}"},
		{"%", "rate_limiter:gold:{%25}"},
		{"}", "rate_limiter:gold:{%7D}"},
		{"{}", "rate_limiter:gold:{%7B%7D}"},
		{"a}b{c", "rate_limiter:gold:{a%7Db%7Bc}"},
		{"%7D", "rate_limiter:gold:{%257D}"},
		{"\x00\r\n\xff", "rate_limiter:gold:{\x00\r\n\xff}"},
	} {
		require.EqualValues(t, tc.want, redis.StoreKey("gold", tc.key), "%+v", tc)
	}
}

// FuzzStoreKey: a key can be read back, and a cluster hashes all of it and nothing else.
func FuzzStoreKey(f *testing.F) {
	for _, key := range []string{"", "ann", "{", "}", "%", "%7D", "{}", "a}b", "%25", "\x00"} {
		f.Add(key)
	}
	back := strings.NewReplacer("%25", "%", "%7B", "{", "%7D", "}", "%", "")
	f.Fuzz(func(t *testing.T, key string) {
		stored := redis.StoreKey("p", key)
		// The rule of the protocol: from the first brace to the first closing one after it.
		_, tag, found := strings.Cut(stored, "{")
		require.True(t, found)
		tag, rest, found := strings.Cut(tag, "}")
		require.True(t, found)
		require.Empty(t, rest, "something is outside of the tag of %q", stored)
		require.NotEmpty(t, tag, "no tag in %q", stored)
		require.Equal(t, key, back.Replace(tag))
	})
}

func encode(now admission.Micros, taken int64, states []admission.State, plans []admission.Plan) string {
	b := binary.BigEndian.AppendUint64(nil, uint64(now))
	b = binary.BigEndian.AppendUint64(b, math.Float64bits(float64(taken)))
	for i, s := range states {
		b = append(b, 1)
		b = binary.BigEndian.AppendUint64(b, uint64(s.At))
		if plans[i].Window == 0 {
			b = binary.BigEndian.AppendUint64(b, math.Float64bits(s.Tokens))
			continue
		}
		b = binary.BigEndian.AppendUint64(b, uint64(s.Current))
		b = binary.BigEndian.AppendUint64(b, uint64(s.Previous))
	}
	return string(b)
}

func replyPlans() []admission.Plan {
	return []admission.Plan{bucket("b", 5, 2), sliding("s", 9, time.Minute)}
}

func TestDecode(t *testing.T) {
	plans := replyPlans()
	states := []admission.State{{At: 17, Tokens: 0.1}, {At: 60e6, Current: 3, Previous: 4}}
	reply := encode(99, 2, states, plans)
	now, taken, got, err := redis.Decode(reply, plans)
	require.NoError(t, err)
	require.Equal(t, admission.Micros(99), now)
	require.Equal(t, int64(2), taken)
	require.Equal(t, states, got)
	for end := range len(reply) {
		_, _, _, err := redis.Decode(reply[:end], plans)
		require.Error(t, err, "the first %d bytes", end)
	}
	_, _, _, err = redis.Decode(reply+"x", plans)
	require.Error(t, err)

	_, _, got, err = redis.Decode(reply[:16]+"\x00\x00", plans)
	require.NoError(t, err)
	require.Equal(t, []admission.State{plans[0].Fresh(99), plans[1].Fresh(99)}, got)
}

// FuzzDecode: what can be read is what was written.
func FuzzDecode(f *testing.F) {
	plans := replyPlans()
	f.Add(encode(99, 2, []admission.State{{At: 17, Tokens: 0.1}, {At: 60e6, Current: 3, Previous: 4}}, plans))
	f.Add(encode(99, -1, []admission.State{{At: 17, Tokens: 5}, {At: 60e6}}, plans))
	f.Add("")
	f.Fuzz(func(t *testing.T, reply string) {
		now, taken, states, err := redis.Decode(reply, plans)
		if err != nil {
			return
		}
		again := encode(now, taken, states, plans)
		_, _, twice, err := redis.Decode(again, plans)
		require.NoError(t, err)
		require.Equal(t, again, encode(now, taken, twice, plans))
		if len(again) == len(reply) && taken != 0 { // there are two zeros
			require.Equal(t, reply, again)
		}
	})
}
