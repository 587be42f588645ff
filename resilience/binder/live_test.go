package binder_test

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"sync"
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

// follow makes a chain around a transport that is never asked.
func follow(t *testing.T, cfg binder.LiveConfig) *binder.LiveChain {
	t.Helper()
	l, err := binder.NewLiveChain(t.Context(), cfg, http.NewFileTransport(http.Dir(t.TempDir())), binder.HTTPOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

const (
	second1 = `{"Timeout": {"Seconds": 1}}`
	second2 = `{"Timeout": {"Seconds": 2}}`
)

func TestLiveSwaps(t *testing.T) {
	doc := &page{doc: second1}
	l := follow(t, binder.LiveConfig{Source: doc.source})
	require.Equal(t, time.Second, l.Model().Timeout.Limit)
	reload(t, l, doc, second2)
	require.Equal(t, 2*time.Second, l.Model().Timeout.Limit)
	require.NoError(t, l.Close())
	_, err := l.Reload(t.Context())
	require.ErrorIs(t, err, resilience.ErrClosed)
	require.Nil(t, l.Model())
	require.NoError(t, l.Close())
}

func TestLiveDoesNotSwapForTheSame(t *testing.T) {
	doc := &page{doc: second1}
	told := 0
	l := follow(t, binder.LiveConfig{Source: doc.source, OnReload: func(*binder.Model, error) { told++ }})
	for _, same := range []string{second1, ` {"resilience": {"timeout": {"seconds": 1.0}}}`} {
		doc.set(same, nil)
		changed, err := l.Reload(t.Context())
		require.NoError(t, err)
		require.False(t, changed)
	}
	require.Zero(t, told)
}

func TestLiveKeepsTheOldForABadDocument(t *testing.T) {
	doc := &page{doc: second1}
	var told []string
	l := follow(t, binder.LiveConfig{Source: doc.source, OnReload: func(m *binder.Model, err error) {
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
		{`{"Fallback": {}}`, nil}, // loads, and cannot be bound
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
		"1s Fallback: a document cannot say what to return instead: give Options.Fallback, or remove the section",
		"2s ok",
	}, told)
}

func errText(err error) string {
	if err == nil {
		return "ok"
	}
	return err.Error()
}

func TestLiveOfACallerWhoGaveUp(t *testing.T) {
	l := follow(t, binder.LiveConfig{
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
		"the document is empty; write {} for no policy at all":                                                 {Source: (&page{}).source},
		"Fallback: a document cannot say what to return instead: give Options.Fallback, or remove the section": {Source: (&page{doc: `{"Fallback": {}}`}).source},
	} {
		_, err := binder.NewLiveChain(t.Context(), cfg, http.DefaultTransport, binder.HTTPOptions{})
		require.EqualError(t, err, want)
	}
}

func TestLiveRunFollowsTheSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		doc := &page{doc: second1}
		var at []time.Duration
		begun := time.Now()
		l := follow(t, binder.LiveConfig{
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

// Requests, reloads and a Close at the same time: each request ends well, also on a chain that was replaced.
func TestLiveUnderLoad(t *testing.T) {
	doc := &page{doc: second1}
	l := follow(t, binder.LiveConfig{Source: doc.source})
	var users sync.WaitGroup
	for range 8 {
		users.Go(func() {
			for {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://a.test/", http.NoBody)
				assert.NoError(t, err)
				res, err := l.RoundTrip(req)
				if errors.Is(err, resilience.ErrClosed) {
					return
				}
				if assert.NoError(t, err) {
					assert.NoError(t, res.Body.Close())
				}
			}
		})
	}
	for i := range 200 {
		reload(t, l, doc, []string{second2, second1}[i%2])
	}
	require.NoError(t, l.Close())
	users.Wait()
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
