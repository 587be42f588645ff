package pipeline

import (
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/fetch"
	"github.com/treadlight/crawl/internal/lab/fetchtest"
)

// taken is a State that another process takes at an instant.
type taken struct {
	*journal
	at time.Time
}

var errTaken = errors.New("another has it")

func (s *taken) Owned() error {
	if time.Now().Before(s.at) {
		return nil
	}
	return errTaken
}

// Not a record more is written once the state is another's, though the state has not failed yet.
func TestNothingIsWrittenToAStateOfAnother(t *testing.T) {
	for name, tc := range map[string]struct {
		after time.Duration
		some  bool
	}{"at once": {0, false}, "later": {2 * time.Second, true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				net := fetchtest.Serve(t, map[string]http.Handler{
					"a.test": http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { html(rw, links(50)) }),
				})
				w := newWorldOn(t, fetch.Config{DialContext: net.DialContext})
				w.limits.InitialRPS, w.limits.MaxRPS = 10, 10
				end := time.Now().Add(tc.after)
				j := newJournal(1)
				w.State = j.state()
				w.State.Progress = &taken{j, end}
				p := w.build(t)
				err := w.run(t.Context(), t, p, "http://a.test/")
				require.ErrorIs(t, err, errTaken)
				require.ErrorContains(t, err, "keep the state of the crawl: ")
				require.WithinDuration(t, end, time.Now(), time.Second)
				got := w.out.byURL(t)
				require.Equal(t, tc.some, len(got) > 1)
				require.Less(t, len(got), 51)
				for url, rec := range got {
					require.True(t, rec.FetchedAt.Before(end), "%s at %v, and it was taken at %v", url, rec.FetchedAt, end)
				}
			})
		})
	}
}
