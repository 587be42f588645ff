package binder_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/resilience"
	"github.com/treadlight/crawl/resilience/binder"
)

type page struct {
	mu  sync.Mutex
	doc string
	err error
}

func (p *page) set(doc string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.doc, p.err = doc, err
}

func (p *page) source(context.Context) ([]byte, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return []byte(p.doc), p.err
}

type part struct {
	limit  time.Duration
	closed atomic.Int32
	err    error
}

func (p *part) Close() error {
	p.closed.Add(1)
	return p.err
}

func build(parts *[]*part) func(*binder.Model) (*part, error) {
	return func(m *binder.Model) (*part, error) {
		if m.Timeout == nil {
			return nil, errors.New("Timeout: is missing here")
		}
		p := &part{limit: m.Timeout.Limit}
		*parts = append(*parts, p)
		return p, nil
	}
}

// follow builds parts of a document, and closes them at the end.
func follow(t *testing.T, cfg binder.LiveConfig) (*binder.Live[*part], *[]*part) {
	t.Helper()
	parts := new([]*part)
	l, err := binder.NewLive(t.Context(), cfg, build(parts))
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l, parts
}

const (
	second1 = `{"Timeout": {"Seconds": 1}}`
	second2 = `{"Timeout": {"Seconds": 2}}`
)

func TestLiveSwapsAndClosesWithTheLastUse(t *testing.T) {
	doc := &page{doc: second1}
	l, parts := follow(t, binder.LiveConfig{Source: doc.source})
	old, leaveOld, err := l.UseForTest()
	require.NoError(t, err)
	require.Equal(t, time.Second, old.limit)

	doc.set(second2, nil)
	changed, err := l.Reload(t.Context())
	require.NoError(t, err)
	require.True(t, changed)
	require.Equal(t, 2*time.Second, l.Model().Timeout.Limit)
	current, leave, err := l.UseForTest()
	require.NoError(t, err)
	require.Equal(t, 2*time.Second, current.limit)
	require.Zero(t, old.closed.Load(), "a use of it is under way")
	leaveOld()
	require.EqualValues(t, 1, old.closed.Load())

	require.NoError(t, l.Close())
	require.Zero(t, current.closed.Load(), "a use of it is under way")
	leave()
	require.EqualValues(t, 1, current.closed.Load())
	_, _, err = l.UseForTest()
	require.ErrorIs(t, err, resilience.ErrClosed)
	_, err = l.Reload(t.Context())
	require.ErrorIs(t, err, resilience.ErrClosed)
	require.Nil(t, l.Model())
	require.NoError(t, l.Close())
	require.Len(t, *parts, 2)
}

func TestLiveDoesNotSwapForTheSame(t *testing.T) {
	doc := &page{doc: second1}
	told := 0
	l, parts := follow(t, binder.LiveConfig{Source: doc.source, OnReload: func(*binder.Model, error) { told++ }})
	for _, same := range []string{second1, ` {"resilience": {"timeout": {"seconds": 1.0}}}`} {
		doc.set(same, nil)
		changed, err := l.Reload(t.Context())
		require.NoError(t, err)
		require.False(t, changed)
	}
	require.Len(t, *parts, 1)
	require.Zero(t, told)
}

func TestLiveKeepsTheOldForABadDocument(t *testing.T) {
	doc := &page{doc: second1}
	var told []string
	l, parts := follow(t, binder.LiveConfig{Source: doc.source, OnReload: func(m *binder.Model, err error) {
		told = append(told, m.Timeout.Limit.String()+" "+errText(err))
	}})
	for _, step := range []struct {
		doc string
		err error
	}{
		{`{"Timeout": {"Seconds": -1}}`, nil},
		{`{"Timeout": {"Seconds": -1}}`, nil}, // told already
		{``, nil},
		{``, errDown},
		{second1, nil}, // what was told is taken back, though nothing else has changed
		{second1, nil},
		{``, errDown},
		{`{}`, nil}, // loads, and cannot be built of
	} {
		doc.set(step.doc, step.err)
		changed, err := l.Reload(t.Context())
		require.Equal(t, step.doc == second1, err == nil)
		require.False(t, changed)
		require.Equal(t, time.Second, l.Model().Timeout.Limit)
	}
	reload(t, l, doc, second2)
	require.Equal(t, []string{
		"1s Timeout.Seconds: -1 is below 0.001; give a number of seconds from 0.001 to 86400 [line 1]",
		"1s the document is empty; write {} for no policy at all",
		"1s down",
		"1s ok",
		"1s down",
		"1s Timeout: is missing here",
		"2s ok",
	}, told)
	require.Len(t, *parts, 2)
}

func errText(err error) string {
	if err == nil {
		return "ok"
	}
	return err.Error()
}

func TestLiveOfACallerWhoGaveUp(t *testing.T) {
	l, _ := follow(t, binder.LiveConfig{
		Source:   func(ctx context.Context) ([]byte, error) { return []byte(second1), ctx.Err() },
		OnReload: func(_ *binder.Model, err error) { t.Errorf("OnReload with %v, want no call", err) },
	})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := l.Reload(ctx)
	require.ErrorIs(t, err, context.Canceled)
}

func TestNewLiveRefuses(t *testing.T) {
	good := &page{doc: second1}
	for want, cfg := range map[string]binder.LiveConfig{
		"binder: LiveConfig.Source is nil: give File or a function":                {},
		"binder: LiveConfig.Poll is -1s: give a positive duration, or zero for 5s": {Source: good.source, Poll: -time.Second},
		"down": {Source: (&page{err: errDown}).source},
		"the document is empty; write {} for no policy at all": {Source: (&page{}).source},
		"Timeout: is missing here":                             {Source: (&page{doc: "{}"}).source},
	} {
		var parts []*part
		_, err := binder.NewLive(t.Context(), cfg, build(&parts))
		require.EqualError(t, err, want)
	}
}

func TestLiveCloseError(t *testing.T) {
	doc := &page{doc: second1}
	l, parts := follow(t, binder.LiveConfig{Source: doc.source})
	(*parts)[0].err = errDown
	require.ErrorIs(t, l.Close(), errDown)
	require.ErrorIs(t, l.Close(), errDown)
	require.EqualValues(t, 1, (*parts)[0].closed.Load())
}

func TestLiveRunFollowsTheSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		doc := &page{doc: second1}
		var at []time.Duration
		begun := time.Now()
		l, _ := follow(t, binder.LiveConfig{
			Source: doc.source, Poll: 3 * time.Second,
			OnReload: func(*binder.Model, error) { at = append(at, time.Since(begun)) },
		})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- l.Run(ctx) }()
		time.Sleep(4 * time.Second)
		doc.set(second2, nil)
		time.Sleep(6 * time.Second)
		doc.set("rubbish", nil)
		time.Sleep(60 * time.Second)
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
		require.Equal(t, []time.Duration{6 * time.Second, 12 * time.Second}, at)

		go func() { ended <- l.Run(t.Context()) }()
		require.NoError(t, l.Close())
		require.ErrorIs(t, <-ended, resilience.ErrClosed)
	})
}

// Uses, reloads and a Close at the same time: each part is closed once, and never under a use.
func TestLiveUnderLoad(t *testing.T) {
	doc := &page{doc: second1}
	l, parts := follow(t, binder.LiveConfig{Source: doc.source})
	var users sync.WaitGroup
	for range 8 {
		users.Go(func() {
			for {
				p, leave, err := l.UseForTest()
				if err != nil {
					return
				}
				assert.Zero(t, p.closed.Load(), "a part in use is closed")
				leave()
			}
		})
	}
	for i := range 200 {
		doc.set([]string{second2, second1}[i%2], nil)
		_, err := l.Reload(t.Context())
		require.NoError(t, err)
	}
	require.NoError(t, l.Close())
	users.Wait()
	require.Len(t, *parts, 201)
	for _, p := range *parts {
		require.EqualValues(t, 1, p.closed.Load())
	}
}

func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "resilience.json")
	source := binder.File(path)
	_, err := source(t.Context())
	require.ErrorIs(t, err, os.ErrNotExist)
	for _, doc := range []string{second1, second2} {
		require.NoError(t, os.WriteFile(path, []byte(doc), 0o600))
		data, err := source(t.Context())
		require.NoError(t, err)
		require.Equal(t, doc, string(data))
	}
	require.NoError(t, os.Remove(path))
	require.NoError(t, os.Mkdir(path, 0o700))
	_, err = source(t.Context())
	require.ErrorContains(t, err, "is not a regular file")
}

func TestFileIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "large.json")
	require.NoError(t, os.WriteFile(path, make([]byte, 1<<20), 0o600))
	data, err := binder.File(path)(t.Context())
	require.NoError(t, err)
	require.Len(t, data, binder.DocumentMax+1)
	_, err = binder.Load(data)
	require.ErrorContains(t, err, "larger than 64 KiB")
}
