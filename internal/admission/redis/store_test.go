//go:build unix

package redis_test

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/admission"
	"github.com/treadlight/crawl/internal/admission/admissiontest"
	"github.com/treadlight/crawl/internal/admission/redis"
)

func hash(t testing.TB, s *server, key string) map[string]string {
	t.Helper()
	return must(s.Do(t, "HGETALL", key).AsStrMap())
}

func pttl(t testing.TB, s *server, key string) time.Duration {
	t.Helper()
	ms := must(s.Do(t, "PTTL", key).AsInt64())
	return time.Duration(ms) * time.Millisecond
}

// The stored form is a promise to other programs that read it.
func TestStoredForm(t *testing.T) { onEach(t, testStoredForm) }

func testStoredForm(t *testing.T, program program) {
	s := program.Shared(t)
	g := rig{s, admissiontest.NewClock()}
	r, clk := g.open(t, redis.Config{}), g.clk
	day := time.Date(2026, 3, 5, 0, 0, 0, 0, time.UTC)
	clk.Set(day.Add(250 * time.Millisecond))
	plans := []admission.Plan{bucket("b", 5, 0.1), fixed("f", 5, time.Minute), sliding("s", 5, time.Minute)}
	take(t, r, "a{n}n", 2, plans...)
	clk.Set(day.Add(time.Second))
	take(t, r, "a{n}n", 1, plans[0])
	clk.Set(day.Add(time.Minute))
	take(t, r, "a{n}n", 1, plans[2])

	integer := func(n int64) string { return string(binary.BigEndian.AppendUint64(nil, uint64(n))) }
	double := func(f float64) string { return string(binary.BigEndian.AppendUint64(nil, math.Float64bits(f))) }
	tokens := 3.0 + 750000*0.1/1e6
	require.Equal(t, map[string]string{"v": "1", "ts": integer(day.Add(time.Second).UnixMicro()), "t": double(tokens - 1)},
		hash(t, s, "rate_limiter:b:{a%7Bn%7Dn}"))
	require.Equal(t, map[string]string{"v": "1", "ts": integer(day.UnixMicro()), "c": integer(2), "p": integer(0)},
		hash(t, s, "rate_limiter:f:{a%7Bn%7Dn}"))
	require.Equal(t, map[string]string{"v": "1", "ts": integer(day.Add(time.Minute).UnixMicro()), "c": integer(1), "p": integer(2)},
		hash(t, s, "rate_limiter:s:{a%7Bn%7Dn}"))
}

// The server's own time decides, and keys expire when nothing counts any more.
func TestServerTimeAndExpiry(t *testing.T) { onEach(t, testServerTimeAndExpiry) }

func testServerTimeAndExpiry(t *testing.T, program program) {
	s := program.Shared(t)
	clk := admissiontest.NewClock() // which is not the time of decisions
	r := open(t, redis.Config{Clock: clk}, s.Addr)
	for _, tc := range []struct {
		plan admission.Plan
		ttl  time.Duration
	}{
		{bucket("slow", 100, 0.5), 200 * time.Second},
		{bucket("fast", 10, 1e9), time.Second},
		{bucket("slowest", 100, 1e-9), 100 * 366 * 24 * time.Hour},
		{fixed("f", 5, time.Minute), time.Minute},
		{fixed("short", 5, time.Millisecond), time.Second},
		{sliding("s", 5, time.Minute), 2 * time.Minute},
	} {
		before := must(s.Do(t, "TIME").AsIntSlice())
		take(t, r, "ann", 1, tc.plan)
		key := redis.StoreKey(tc.plan.Name, "ann")
		left := pttl(t, s, key)
		require.LessOrEqual(t, left, tc.ttl, tc.plan.Name)
		require.NotEqual(t, -time.Millisecond, left, "%s does not expire", tc.plan.Name)
		if tc.plan.Window != 0 || tc.ttl == time.Second {
			continue
		}
		ts := int64(binary.BigEndian.Uint64([]byte(hash(t, s, key)["ts"])))
		require.GreaterOrEqual(t, ts, before[0]*1e6+before[1], "%s: not the server's time", tc.plan.Name)
		require.Greater(t, left, tc.ttl-patience, tc.plan.Name)
	}
}

// A key written by a clock that is behind lives until that has caught up, and its time to
// live after that; it would be forgotten too early otherwise.
func TestExpiryOfAClockThatIsBehind(t *testing.T) {
	g := newRig(t)
	r := g.open(t, redis.Config{})
	p := bucket("p", 1000, 1)
	take(t, r, "ann", 1, p)
	g.clk.Move(-500 * time.Second)
	take(t, r, "ann", 1, p)
	// Tests with a clock of their own add an hour.
	left := pttl(t, g.s, redis.StoreKey("p", "ann")) - time.Hour
	require.LessOrEqual(t, left, 1500*time.Second)
	require.Greater(t, left, 1500*time.Second-patience)
}

// Neither a question nor a denial writes: not a byte, not the expiry, not a new key.
func TestThirdPlanDenies(t *testing.T) { onEach(t, testThirdPlanDenies) }

func testThirdPlanDenies(t *testing.T, program program) {
	s := program.Shared(t)
	r := open(t, redis.Config{Keys: -1}, s.Addr)
	a, b, c := bucket("a", 100, 0.001), sliding("b", 100, time.Hour), fixed("c", 1, 24*time.Hour)
	take(t, r, "ann", 1, a, b, c)
	dump := func() []string {
		var all []string
		for _, plan := range []string{"a", "b", "c"} {
			bytes := must(s.Do(t, "DUMP", redis.StoreKey(plan, "ann")).ToString())
			at := must(s.Do(t, "PEXPIRETIME", redis.StoreKey(plan, "ann")).AsInt64())
			all = append(all, bytes, strconv.FormatInt(at, 10))
		}
		return all
	}
	before := dump()
	for range 10 {
		res := take(t, r, "ann", 1, a, b, c)
		require.False(t, res.Allowed)
		require.Equal(t, "c", res.Plan)
	}
	take(t, r, "ann", 0, a, b, c)
	require.Equal(t, before, dump())

	require.False(t, take(t, r, "bob", 2, a, b, c).Allowed)
	take(t, r, "bob", 0, a, b, c)
	require.Empty(t, must(s.Do(t, "KEYS", "*{bob}").AsStrSlice()))
}

// What no plan can have written counts as nothing and is replaced as a whole.
func TestDamagedStore(t *testing.T) { onEach(t, testDamagedStore) }

func testDamagedStore(t *testing.T, program program) {
	eight := func(n uint64) string { return string(binary.BigEndian.AppendUint64(nil, n)) }
	now := eight(uint64(time.Now().UnixMicro()))
	nan := eight(math.Float64bits(math.NaN()))
	b, f := bucket("b", 5, 0.001), fixed("f", 5, 24*time.Hour)
	s := program.Shared(t)
	r := open(t, redis.Config{Keys: -1}, s.Addr)
	for _, tc := range []struct {
		name   string
		plan   admission.Plan
		fields []string
		left   int64 // after one was taken
	}{
		{"short tokens", b, []string{"v", "1", "ts", now, "t", "abc"}, 4},
		{"no tokens", b, []string{"v", "1", "ts", now}, 4},
		{"other version", b, []string{"v", "2", "ts", now, "t", eight(0)}, 4},
		{"no version", b, []string{"ts", now, "t", eight(0)}, 4},
		{"time before 1970", b, []string{"v", "1", "ts", eight(1 << 63), "t", eight(0)}, 4},
		{"time beyond doubles", b, []string{"v", "1", "ts", eight(1<<53 + 1), "t", eight(0)}, 4},
		{"time far ahead", b, []string{"v", "1", "ts", eight(1 << 52), "t", eight(0)}, 4},
		{"tokens are no number", b, []string{"v", "1", "ts", now, "t", nan}, 4},
		{"too many tokens", b, []string{"v", "1", "ts", now, "t", eight(math.Float64bits(1e300))}, 4},
		{"a window", b, []string{"v", "1", "ts", now, "c", eight(5), "p", eight(0)}, 4},
		{"negative count", f, []string{"v", "1", "ts", eight(0), "c", eight(1 << 63), "p", eight(0)}, 4},
		{"vast count", f, []string{"v", "1", "ts", eight(0), "c", eight(1 << 62), "p", eight(0)}, 4},
		{"no previous", f, []string{"v", "1", "ts", now, "c", eight(5)}, 4},
		{"a bucket", f, []string{"v", "1", "ts", now, "t", eight(0)}, 4},
	} {
		t.Run(tc.name, func(t *testing.T) {
			key := redis.StoreKey(tc.plan.Name, tc.name)
			s.Do(t, append([]string{"HSET", key}, tc.fields...)...)
			res := take(t, r, tc.name, 1, tc.plan)
			require.True(t, res.Allowed)
			require.Equal(t, tc.left, res.Remaining)
			require.Len(t, hash(t, s, key), map[bool]int{true: 3, false: 4}[tc.plan.Window == 0])
			require.Equal(t, tc.left, take(t, r, tc.name, 0, tc.plan).Remaining, "what was written")
		})
	}
}

// A key of something else is an error for those who ask for it, and no outage.
func TestForeignKey(t *testing.T) { onEach(t, testForeignKey) }

func testForeignKey(t *testing.T, program program) {
	s := program.Shared(t)
	r := open(t, redis.Config{}, s.Addr)
	p := bucket("p", 5, 1)
	s.Do(t, "SET", redis.StoreKey("p", "ann"), "x")
	for range 50 {
		_, err := r.Take(context.Background(), "ann", []admission.Plan{p}, 1)
		require.ErrorContains(t, err, "WRONGTYPE")
		foreign, ok := errors.AsType[*redis.ForeignKeyError](err)
		require.True(t, ok, "%v", err)
		require.ErrorIs(t, err, admission.ErrNoVerdict)
		require.Equal(t, redis.StoreKey("p", "ann"), foreign.Key, "who reads it knows what to delete")
	}
	require.True(t, take(t, r, "bob", 1, p).Allowed)
	require.Zero(t, r.Statistics().Failures)
	require.Equal(t, "x", must(s.Do(t, "GET", redis.StoreKey("p", "ann")).ToString()))
}

// A server that has no memory left says so, and that is an outage.
func TestServerRefuses(t *testing.T) { onEach(t, testServerRefuses) }

func testServerRefuses(t *testing.T, program program) {
	s := program.Start(t, "--maxmemory", "1", "--maxmemory-policy", "noeviction")
	r := open(t, redis.Config{}, s.Addr)
	_, err := r.Take(context.Background(), "ann", []admission.Plan{bucket("p", 5, 1)}, 1)
	require.ErrorContains(t, err, "OOM")
	require.Equal(t, uint64(1), r.Statistics().Failures)
}

// The servers cache scripts by their text, and 14 digits is what Lua prints of a number:
// no number may become text but the time to live.
func TestScriptKeepsNumbersBinary(t *testing.T) {
	for _, banned := range []string{"tostring", "string.format", "replicate_commands", "math.random", "os.time"} {
		require.NotContains(t, redis.Script(), banned)
	}
	require.Equal(t, 1, strings.Count(redis.Script(), "'PEXPIRE'"))
}

// The suite compares every step with the pure functions, so this compares the script.
func TestConformance(t *testing.T) {
	for _, tc := range []struct {
		name string
		keys int
	}{{"each decision a trip", -1}, {"denials remembered", 0}} {
		t.Run(tc.name, func(t *testing.T) {
			onEach(t, func(t *testing.T, program program) {
				admissiontest.Run(t, func(t *testing.T, clk *admissiontest.Clock) admission.Repository {
					return rig{program.Shared(t), clk}.open(t, redis.Config{Keys: tc.keys})
				}, admissiontest.Options{})
			})
		})
	}
}

func TestConfigErrorsNameTheField(t *testing.T) {
	there := rueidis.ClientOption{InitAddress: []string{"127.0.0.1:1"}}
	for _, tc := range []struct {
		cfg  redis.Config
		want string
	}{
		{redis.Config{}, "Redis.InitAddress is empty: give"},
		{redis.Config{Redis: there, Deadline: -1}, "Deadline is -1ns: set it to more than 0"},
		{redis.Config{Redis: there, Lease: -1}, "Lease is -1ns: set it to at most 10s"},
		{redis.Config{Redis: there, Lease: time.Minute}, "Lease is 1m0s: set it to at most 10s"},
		{redis.Config{Redis: there, Lease: time.Second, Keys: -1}, "set Keys to 1 or more"},
		{redis.Config{Redis: there, Instances: -2}, "Instances is -2: set it to 1 or more"},
	} {
		r, err := redis.New(tc.cfg)
		require.ErrorContains(t, err, tc.want)
		require.Nil(t, r)
	}
}

// Nothing listens at the address: to make a repository is no reason to connect.
func TestNewDoesNotConnect(t *testing.T) {
	option := rueidis.ClientOption{InitAddress: []string{"127.0.0.1:1"}}
	r := must(redis.New(redis.Config{Redis: option}))
	require.Zero(t, r.Statistics())
	require.False(t, option.DisableRetry, "the caller's options were changed")
	require.NoError(t, r.Close())
	require.NoError(t, r.Close())
}

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
