package assembly

import (
	"errors"
	"os"
	"time"

	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/frontier/disk"
	"github.com/treadlight/crawl/internal/web/canonical"
)

// StateView looks at the state of a crawl, which may be under way in another process. Make
// one by [ViewState]. It is not safe for concurrent use.
type StateView struct {
	view     *disk.View
	settings Settings
	seeds    []string
}

// ViewState opens a view of the state in a directory. The error is [fs.ErrNotExist] if there
// is none.
func ViewState(dir string) (*StateView, error) {
	if info, err := os.Stat(dir); err == nil && !info.IsDir() {
		return nil, stateError(dir, errFile)
	}
	d, err := disk.Look(dir)
	if err != nil {
		return nil, stateError(dir, err)
	}
	v := &StateView{view: d}
	if err := v.read(dir); err != nil {
		return nil, errors.Join(stateError(dir, err), d.Close())
	}
	return v, nil
}

func (v *StateView) read(dir string) error {
	text, err := v.view.Meta(metaSettings)
	program, errProgram := v.view.Meta(metaProgram)
	if err = errors.Join(err, errProgram); err != nil {
		return err
	}
	if v.settings, err = loadSettings(dir, text, program); err != nil {
		return err
	}
	return v.view.Seeds(func(it frontier.Item) bool {
		v.seeds = append(v.seeds, it.URL.String())
		return true
	})
}

// Settings are those of its last run.
func (v *StateView) Settings() Settings { return v.settings }

// Seeds are the URLs that it began with, and those to which they were redirected.
func (v *StateView) Seeds() []string { return v.seeds }

// KnownURL is what the state of a crawl has of a URL: that of the package crawl, which says what each
// field means.
type KnownURL struct {
	State    string    `json:"state"`
	Depth    int       `json:"depth,omitempty"`
	Seed     bool      `json:"seed,omitempty"`
	Referrer string    `json:"referrer,omitempty"`
	QueuedAt time.Time `json:"queued_at,omitzero"`

	VisitedAt time.Time `json:"visited_at,omitzero"`
	Round     int       `json:"round,omitempty"`
	Status    int       `json:"status,omitempty"`
	Class     string    `json:"class,omitempty"`
	Change    string    `json:"change,omitempty"`
}

// Find is what the state has of a URL in its canonical form, as an [Explanation] has it. It
// reads all URLs: some seconds for ten million.
func (v *StateView) Find(url string) (KnownURL, error) {
	u, err := canonical.Parse(url)
	if err != nil {
		return KnownURL{}, err
	}
	p, err := v.view.Page(u.String())
	if err != nil || p == nil {
		return KnownURL{State: "unknown"}, err
	}
	k := KnownURL{
		State: "visited", Depth: p.Depth, Seed: p.Seed, Referrer: p.Referrer, QueuedAt: p.QueuedAt.UTC(),
		Round: p.Round, Status: p.Status, Class: p.Class, Change: p.Change,
	}
	if p.Queued {
		k.State = "queued"
	}
	if p.Round > 0 {
		k.VisitedAt = p.VisitedAt.UTC()
	}
	return k, nil
}

// Close ends the view.
func (v *StateView) Close() error { return v.view.Close() }
