package memory

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/treadlight/crawl/internal/ratelimit"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

const head = `{"format":"treadlight-hosts","version":1}` + "\n"

// host is an entry that is so old.
func host(name string, age time.Duration, rate float32) ratelimit.HostMemory {
	return ratelimit.HostMemory{Domain: name, LastUsed: now.Add(-age), Learned: ratelimit.Learned{Rate: rate}}
}

// text is a file with these entries.
func text(t require.TestingT, hosts ...ratelimit.HostMemory) string {
	var b bytes.Buffer
	require.NoError(t, write(&b, slices.Values(hosts)))
	return b.String()
}

// readAll reads a whole file at now.
func readAll(s string, most int) ([]ratelimit.HostMemory, Damage, error) {
	b := newBook(most)
	damage, err := b.read(strings.NewReader(s), now, time.Hour)
	return b.latest(), damage, err
}

func TestReadOfWrite(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nanos := func(name string, least, most time.Duration) time.Duration {
			return time.Duration(rapid.Int64Range(int64(least), int64(most)).Draw(t, name))
		}
		var want []ratelimit.HostMemory
		for i := range rapid.IntRange(0, 20).Draw(t, "hosts") {
			m := host(fmt.Sprintf("%d.test", i), nanos("age", 0, 24*time.Hour-1), rapid.Float32Range(1e-6, 1e6).Draw(t, "rate"))
			m.Pause = nanos("pause", 0, time.Hour)
			if rapid.Bool().Draw(t, "told to wait") {
				m.RetryUntil = now.Add(nanos("retry", 1, time.Hour))
			}
			if rapid.Bool().Draw(t, "held") {
				m.HeldUntil = now.Add(nanos("until", -time.Hour, time.Hour))
			}
			want = append(want, m)
		}
		got, damage, err := readAll(text(t, want...), 100)
		require.NoError(t, err)
		require.Zero(t, damage)
		require.ElementsMatch(t, want, got)
	})
}

// The format is a promise: files outlive programs.
func TestFormat(t *testing.T) {
	m := host("a.test:8080", 0, 4.85)
	m.Pause, m.RetryUntil, m.HeldUntil = 1500*time.Millisecond, now.Add(time.Minute), now.Add(time.Second)
	require.Equal(t, head+
		`{"host":"a.test:8080","used":"2026-01-02T03:04:05Z","rate":4.85,"pause_ns":1500000000,`+
		`"retry_until":"2026-01-02T03:05:05Z","held_until":"2026-01-02T03:04:06Z"}`+"\n"+
		`{"host":"b.test","used":"2026-01-02T03:04:04Z","rate":1}`+"\n", text(t, m, host("b.test", time.Second, 1)))
}

func TestReadJudgesTheHeader(t *testing.T) {
	for _, tc := range []struct{ text, want string }{
		{"", ""},
		{head, ""},
		{strings.TrimSpace(head), ""},
		{`{"version":1,"format":"treadlight-hosts","by":"x"}` + "\n", ""},
		{"\n", "it is no memory of hosts: name another file, or one that does not exist yet"},
		{`{"url":"https://a.test/","status":200}` + "\n", "it is no memory of hosts: name another file, or one that does not exist yet"},
		{strings.Repeat("x", 3*maxLine), "it is no memory of hosts: name another file, or one that does not exist yet"},
		{`{"format":"treadlight-hosts","version":2}`, "it is a memory of hosts of version 2, and this program writes version 1: name another file, or use the program that wrote it"},
	} {
		hosts, _, err := readAll(tc.text, 10)
		if tc.want == "" {
			require.NoError(t, err, tc.text)
			require.Empty(t, hosts)
			continue
		}
		_, ours := errors.AsType[*FormatError](err)
		require.True(t, ours, tc.text)
		require.EqualError(t, err, tc.want)
	}
}

func TestReadPassesDamageOver(t *testing.T) {
	good := host("good.test", 0, 1)
	lines := strings.SplitAfter(text(t, good, host("last.test", 0, 2)), "\n")
	for name, bad := range map[string]string{
		"cut off":        `{"host":"a.test","us`,
		"empty":          ``,
		"not an object":  `[1]`,
		"no name":        `{"used":"2026-01-02T03:04:05Z","rate":1}`,
		"another name":   `{"host":"A.test","used":"2026-01-02T03:04:05Z","rate":1}`,
		"no time":        `{"host":"a.test","rate":1}`,
		"a time of old":  `{"host":"a.test","used":"1066-10-14T09:00:00Z","rate":1}`,
		"a year too far": `{"host":"a.test","used":"9999-12-31T23:59:59-01:00","rate":1}`,
		"too fast":       `{"host":"a.test","used":"2026-01-02T03:04:05Z","rate":1e7}`,
		"below zero":     `{"host":"a.test","used":"2026-01-02T03:04:05Z","pause_ns":-1}`,
		"too long":       `{"host":"a.test","used":"2026-01-02T03:04:05Z","rate":1,"x":"` + strings.Repeat("x", 5*maxLine) + `"}`,
		"binary":         "\x00\xff",
	} {
		t.Run(name, func(t *testing.T) {
			hosts, damage, err := readAll(lines[0]+lines[1]+bad+"\n"+bad+"\n"+lines[2], 10)
			require.NoError(t, err)
			require.Len(t, hosts, 2)
			require.Equal(t, 2, damage.Lines)
			require.Equal(t, 3, damage.First)
			require.Error(t, damage.Err)
		})
	}
	hosts, damage, err := readAll(strings.TrimSuffix(text(t, good), "\n"), 10)
	require.NoError(t, err)
	require.Zero(t, damage, "a last line without its end is whole")
	require.Equal(t, []ratelimit.HostMemory{good}, hosts)
}

func TestReadTellsWhenItCannot(t *testing.T) {
	broken := errors.New("broken")
	for _, before := range []string{"", head, head + `{"host"`} {
		_, err := newBook(10).read(io.MultiReader(strings.NewReader(before), iotest.ErrReader(broken)), now, time.Hour)
		require.ErrorIs(t, err, broken, before)
	}
}

// Of two entries the newer one counts, but neither's order to wait is lost.
func TestBookMerges(t *testing.T) {
	older, newer := host("a.test", time.Minute, 1), host("a.test", time.Second, 2)
	older.RetryUntil = now.Add(time.Hour)
	want := newer
	want.RetryUntil = older.RetryUntil
	for _, order := range [][]ratelimit.HostMemory{{older, newer}, {newer, older}} {
		b := newBook(10)
		for _, m := range order {
			b.add(m)
		}
		require.Equal(t, []ratelimit.HostMemory{want}, b.latest())
	}
	b := newBook(10)
	b.add(host("a.test", 0, 1))
	b.add(host("a.test", 0, 2))
	require.EqualValues(t, 1, b.latest()[0].Rate, "among equals the first")
}

func TestBookKeepsTheLatestUsed(t *testing.T) {
	b := newBook(3)
	for i := range 1000 {
		age := time.Duration(i*379%1000) * time.Second // every age once, in disorder
		b.add(host(fmt.Sprintf("%d.test", age/time.Second), age, 1))
		require.LessOrEqual(t, len(b.hosts), 6)
	}
	var names []string
	for _, m := range b.latest() {
		names = append(names, m.Domain)
	}
	require.Equal(t, []string{"0.test", "1.test", "2.test"}, names)
}

// What is accepted is written back such that it is read as the same, and nothing panics.
func FuzzRead(f *testing.F) {
	m := host("a.test", time.Hour, 3.25)
	m.Pause, m.RetryUntil, m.HeldUntil = 7, now.Add(time.Minute), now.Add(time.Second)
	f.Add(text(f, m, host("[::1]:8080", 0, 1)))
	f.Add(head + `{"host":"a.test","used":"2026-01-02T04:04:05.5+01:00","retry_until":"2026-01-02T03:05:05-00:30"}` + "\n\n{")
	f.Add(head + `{"host":"a","used":"2026-01-02T03:04:05Z","rate":1e-45,"Rate":0.1,"held_until":"0001-01-01T00:00:00Z"}`)
	f.Fuzz(func(t *testing.T, s string) {
		hosts, _, err := readAll(s, 100)
		if err != nil {
			return
		}
		once := text(t, hosts...)
		again, damage, err := readAll(once, 100)
		require.NoError(t, err)
		require.Zero(t, damage)
		require.Equal(t, hosts, again)
		require.Equal(t, once, text(t, again...))
	})
}
