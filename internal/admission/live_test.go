package admission_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/admission"
)

// hammer has four clients ask until do has returned, and check look at each answer.
func hammer(d *doorway, do func(), check func(code int, h http.Header, body string)) {
	var over atomic.Bool
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for !over.Load() {
				w := d.get("/")
				check(w.Code, w.Header(), w.Body.String())
			}
		})
	}
	do()
	over.Store(true)
	all.Wait()
}

// quiet is a doorway that keeps no record of denials, so that many may ask at once.
func quiet(t *testing.T, cfg doorwayConfig) *doorway {
	cfg.bubble = true              // of no bubble: it has the time of the system, too
	cfg.deadline = 5 * time.Minute // a busy machine is not a store that is down
	return newDoorway(t, cfg)
}

// TestProgramAndAdministratorAtOnce change different things, and neither takes back what the
// other did.
func TestProgramAndAdministratorAtOnce(t *testing.T) {
	o := newOffice(t, filepath.Join(t.TempDir(), "rules.json"))
	const each = 50
	var all sync.WaitGroup
	all.Go(func() {
		for i := range each {
			name := fmt.Sprint("program-", i)
			if err := o.registry.Put(admission.Plan{Name: name, Capacity: 1, TokensPerSecond: 1}); err != nil {
				t.Error(err)
			}
			if err := o.rules.Put(admission.Rule{Name: name, Path: "/", Plans: []string{name}}, ""); err != nil {
				t.Error(err)
			}
		}
	})
	all.Go(func() {
		for i := range each {
			name := fmt.Sprint("office-", i)
			if w := o.do(http.MethodPut, "/plans/"+name, `{"capacity": 1, "tokens_per_second": 1}`); w.Code != http.StatusOK {
				t.Error(w.Body)
			}
			if w := o.do(http.MethodPut, "/rules/"+name, `{"path": "/", "plans": ["`+name+`"]}`); w.Code != http.StatusOK {
				t.Error(w.Body)
			}
		}
	})
	all.Wait()
	require.Len(t, o.registry.Plans(), 1+2*each)
	require.Len(t, o.rules.Rules(), 1+2*each)
}

// TestFilesAreInForceWhole loads two files in turn, of which each forbids by itself: the
// cost of the one and the plan of the other, or the rule of the one and the plans of the
// other, are never together.
func TestFilesAreInForceWhole(t *testing.T) {
	d := quiet(t, onePlan(admission.Plan{Name: "p", Capacity: 1, TokensPerSecond: 1e-9}, nil))
	dir := t.TempDir()
	files := map[string]string{
		"dear.yaml":  "plans: [{name: p, capacity: 7, tokens_per_second: 1e-9}]\nrules: [{name: r, path: /**, plans: [p], cost: 7}]",
		"cheap.yaml": "plans: [{name: p, capacity: 1, tokens_per_second: 1e-9}]\nrules: [{name: r, path: /**, plans: [p]}]",
		"other.yaml": "plans: [{name: q, capacity: 3, tokens_per_second: 1e-9}]\nrules: [{name: r, path: /**, plans: [q], cost: 3}]",
	}
	for name, text := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	require.Equal(t, in, d.get("/").Code)
	require.NoError(t, d.rules.LoadFile(filepath.Join(dir, "other.yaml")))
	require.Equal(t, in, d.get("/").Code)
	whole := map[string]bool{`"p";q=7;w=3162240000 7`: true, `"p";q=1;w=1000000000 1`: true, `"q";q=3;w=3000000000 3`: true}
	hammer(d, func() {
		for range 300 {
			for name := range files {
				require.NoError(t, d.rules.LoadFile(filepath.Join(dir, name)))
			}
		}
	}, func(code int, h http.Header, body string) {
		if code != out {
			t.Errorf("status %d, want %d: %s", code, out, body)
		}
		if got := h.Get("RateLimit-Policy") + " " + h.Get("X-RateLimit-Limit"); !whole[got] {
			t.Errorf("half a set of rules: %s", got)
		}
		if h.Get("Retry-After") == "" {
			t.Errorf("half a set of rules: %s", body)
		}
	})
	require.Zero(t, d.admitter.Statistics().FailedOpen)
}
