//go:build unix

package redis

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/frontier"

	"github.com/treadlight/crawl/internal/lab/redistest"
)

// Joiners must agree, and take what the job has.
func TestTerms(t *testing.T) {
	r := newRig(t)
	terms := func(c *Config) { c.Terms = map[string]string{"scope": "host", "engine": "1"} }
	_, err := Open(t.Context(), func() Config { c := r.cfg; c.Join = true; return c }())
	require.ErrorIs(t, err, ErrNoJob)
	a := r.open(terms)
	b := r.open(terms, func(c *Config) { c.key, c.partitions, c.Join = 99, 5, true })
	require.Equal(t, a.Key(), b.Key())
	require.Len(t, b.parts, 1)
	cfg := r.cfg
	cfg.Terms = map[string]string{"scope": "any", "rules": "2"}
	_, err = Open(t.Context(), cfg)
	var other *frontier.TermsError
	require.ErrorAs(t, err, &other)
	require.Equal(t, []frontier.Diff{{Term: "engine", Job: "1"}, {Term: "rules", Here: "2"}, {Term: "scope", Job: "host", Here: "any"}}, other.Diffs)
	require.ErrorContains(t, err, `scope is "host" there and "any" here`)
}

// Seeds are told to all processes, those that are there and those that come later.
func TestSeeds(t *testing.T) {
	r := newRig(t)
	heard := make(chan string, 10)
	a := r.open()
	r.open(func(c *Config) { c.OnSeed = func(url string, hops uint8) { heard <- url + " " + decimal(int64(hops)) } })
	for _, url := range []string{"http://a.test/", "http://b.test/"} {
		it := item(t, url)
		it.Seed, it.Hops = true, 3
		a.Put(it.URL.Host(), it, it.URL.Fingerprint(7), true)
		a.Put(it.URL.Host(), it, it.URL.Fingerprint(7), true)
	}
	flush(t, a)
	require.Eventually(t, func() bool {
		r.clk.Advance(time.Second)
		return len(heard) == 2
	}, redistest.Patience, time.Millisecond)
	require.Equal(t, "http://a.test/ 3", <-heard)
	require.Equal(t, "http://b.test/ 3", <-heard)
	r.open(func(c *Config) { c.OnSeed = func(url string, _ uint8) { heard <- url } })
	require.Equal(t, "http://a.test/", <-heard, "before Open has returned")
}

func TestConfigErrors(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*Config)
		want   string
	}{
		{"no address", func(c *Config) { c.Redis.InitAddress = nil }, "Redis.InitAddress"},
		{"no job", func(c *Config) { c.Job = "" }, `Job = ""`},
		{"job", func(c *Config) { c.Job = "a/b" }, `Job = "a/b"`},
		{"no server", func(c *Config) { c.Redis.InitAddress = []string{"127.0.0.1:1"} }, "see that the server is there"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cfg := Config{Job: "j"}
			cfg.Redis.InitAddress = []string{"127.0.0.1:1"}
			tc.change(&cfg)
			_, err := Open(t.Context(), cfg)
			require.ErrorContains(t, err, tc.want)
		})
	}
}

func TestJudge(t *testing.T) {
	for _, tc := range []struct{ info, want string }{
		{"redis_version:7.0.15\r\nmaxmemory:0\r\nmaxmemory_policy:allkeys-lru\r\n", ""},
		{"redis_version:7.2.4\r\nvalkey_version:8.0.1\r\nmaxmemory:100\r\nmaxmemory_policy:noeviction\r\n", ""},
		{"redis_version:6.2.1\r\n", "7.0 or later"},
		{"redis_version:7.0.15\r\nmaxmemory:100\r\nmaxmemory_policy:volatile-lru\r\n", "set it to noeviction"},
	} {
		err := judge(infoOf(tc.info))
		if tc.want == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, tc.want)
		}
	}
}

// Purged, a job is gone, and another whose name begins alike is not.
func TestPurge(t *testing.T) {
	r := newRig(t)
	a := r.open()
	put(t, a, "http://a.test/1")
	flush(t, a)
	cfg := r.cfg
	cfg.Job += ".0"
	other, err := Open(t.Context(), cfg)
	require.NoError(t, err)
	defer other.Close()
	put(t, other, "http://a.test/1")
	flush(t, other)
	f := r.dial()
	require.NoError(t, f.SetControl(t.Context(), Paused))
	require.Error(t, f.SetControl(t.Context(), "asleep"))
	st := statusOf(t, f)
	require.Equal(t, Paused, st.Control)
	require.EqualValues(t, 1, st.Queued)
	require.EqualValues(t, 1, st.Ready+st.Waiting)
	keys, err := f.Purge(t.Context())
	require.NoError(t, err)
	require.Greater(t, keys, int64(4))
	_, err = f.Status(t.Context())
	require.ErrorIs(t, err, ErrNoJob)
	require.ErrorIs(t, f.SetControl(t.Context(), Running), ErrNoJob)
	a.Activate(1)
	<-a.Failed()
	require.ErrorIs(t, a.Err(), ErrNoJob)
	require.True(t, errors.Is(a.Close(), ErrNoJob))
	require.Equal(t, []string{"a.test"}, names(activate(t, other, 1)))
}

// A job of which what is stored cannot be read says so, and can be purged as well.
func TestPurgeOfWhatIsDamaged(t *testing.T) {
	srv := redistest.Redis.Shared(t)
	for _, damage := range []func(key string){
		func(key string) { srv.Do(t, "HSET", key, "partitions", "many") },
		func(key string) { srv.Do(t, "SET", key, "x") },
	} {
		r := rigOn(t, srv.Addr)
		s := r.open()
		put(t, s, "http://a.test/1")
		flush(t, s)
		require.NoError(t, s.Close())
		damage(jobKey(r.cfg.Job, "job"))
		_, err := Dial(t.Context(), r.cfg.Redis, r.cfg.Job)
		require.ErrorContains(t, err, "purge the job")
		_, err = Open(t.Context(), r.cfg)
		require.ErrorContains(t, err, "purge the job")
		f, err := DialToPurge(t.Context(), r.cfg.Redis, r.cfg.Job)
		require.NoError(t, err)
		keys, err := f.Purge(t.Context())
		require.NoError(t, err)
		require.Greater(t, keys, int64(4))
		_, err = f.Purge(t.Context())
		require.NoError(t, err)
		f.Close()
		_, err = DialToPurge(t.Context(), r.cfg.Redis, r.cfg.Job)
		require.ErrorIs(t, err, ErrNoJob)
		require.NoError(t, r.open().Close())
	}
}
