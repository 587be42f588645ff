package redis_test

import (
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/admission/redis"
	"github.com/treadlight/crawl/internal/ratelimit/breaker"
)

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
		{redis.Config{Redis: there, Breaker: breaker.Config{ErrorRate: 2}}, "Breaker: breaker: ErrorRate = 2"},
	} {
		r, err := redis.New(tc.cfg)
		require.ErrorContains(t, err, tc.want)
		require.Nil(t, r)
	}
}

// Nothing listens at the address: to make a repository is no reason to connect.
func TestNewDoesNotConnect(t *testing.T) {
	option := rueidis.ClientOption{InitAddress: []string{"127.0.0.1:1"}}
	r, err := redis.New(redis.Config{Redis: option})
	require.NoError(t, err)
	require.Zero(t, r.Statistics())
	require.False(t, option.DisableRetry, "the caller's options were changed")
	require.NoError(t, r.Close())
	require.NoError(t, r.Close())
}
