package admission_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/admission"
)

var (
	login = admission.Plan{Name: "login", Kind: admission.KindFixedWindow, Capacity: 5, Window: time.Minute}
	api   = admission.Plan{Name: "api", Kind: admission.KindTokenBucket, Capacity: 100, TokensPerSecond: 1.5}
	daily = admission.Plan{Name: "daily", Kind: admission.KindSlidingWindow, Capacity: 1000, Window: 24 * time.Hour}
)

func registry(t *testing.T, plans ...admission.Plan) *admission.Registry {
	t.Helper()
	r, err := admission.NewRegistry(plans...)
	require.NoError(t, err)
	return r
}

func TestRegistryChanges(t *testing.T) {
	var r admission.Registry
	require.Empty(t, r.Plans(), "the zero Registry")
	require.NoError(t, r.Put(login))
	require.NoError(t, r.Put(admission.Plan{Name: "api", Capacity: 100, TokensPerSecond: 1.5}))
	require.Equal(t, []admission.Plan{login, api}, r.Plans(), "settled, in the order they came")

	stricter := login
	stricter.Capacity = 3
	require.NoError(t, r.Put(stricter))
	require.Equal(t, []admission.Plan{stricter, api}, r.Plans(), "in its place")
	require.ErrorIs(t, r.Put(admission.Plan{Name: "x"}), admission.ErrInvalidPlan)

	require.NoError(t, r.Remove("login"))
	require.ErrorIs(t, r.Remove("login"), admission.ErrUnknownPlan)
	_, ok := r.Plan("login")
	require.False(t, ok)
	p, ok := r.Plan("api")
	require.True(t, ok)
	require.Equal(t, api, p)

	require.EqualError(t, r.Replace(login, api, login), `plans[2].name is "login": use another name, plans[0] has it`)
	require.Equal(t, []admission.Plan{api}, r.Plans(), "an error changes nothing")
	r.Plans()[0].Capacity = 1
	require.Equal(t, []admission.Plan{api}, r.Plans(), "the slice is the caller's")
}

func TestRegistryIsBounded(t *testing.T) {
	plans := make([]admission.Plan, 10_000)
	for i := range plans {
		plans[i] = login
		plans[i].Name = fmt.Sprint(i)
	}
	r := registry(t, plans...)
	require.ErrorContains(t, r.Put(login), "remove one first")
	require.ErrorContains(t, r.Replace(append(plans, login)...), "no more than 10000")
}

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestRegistryLoadFile(t *testing.T) {
	for name, text := range map[string]string{
		"plans.yaml": "plans:\n  - {name: login, kind: fixed-window, capacity: 5, window: 1m}\n  - name: api\n    capacity: 1e2\n    tokens_per_second: 1.5\n",
		"plans.json": "{\n\t\"plans\": [\n\t\t{\"name\": \"login\", \"kind\": \"fixed-window\", \"capacity\": 5, \"window\": \"1m\"},\n" +
			"\t\t{\"name\": \"api\", \"capacity\": 100, \"tokens_per_second\": 1.5}]}",
	} {
		r := registry(t, daily)
		require.NoError(t, r.LoadFile(write(t, name, text)), name)
		require.Equal(t, []admission.Plan{login, api}, r.Plans(), name)
	}
	r := registry(t, daily)
	require.NoError(t, r.LoadFile(write(t, "empty.yml", "")))
	require.Empty(t, r.Plans())
}

func TestRegistryLoadFileErrors(t *testing.T) {
	const good = `{"name":"a","capacity":1,"tokens_per_second":1}`
	for _, tc := range []struct{ file, text, want string }{
		{"p.json", `{"plans":[` + good + `,{"name":"b"}]}`, "plans[1].capacity is 0: use 1 to 1099511627776"},
		{"p.json", `{"plans":[` + good + `,` + good + `]}`, `plans[1].name is "a": use another name, plans[0] has it`},
		{"p.json", `{"plans":[{"name":"a","rate":1}]}`, "plans[0].rate is not known: use name, kind, capacity, tokens_per_second, window"},
		{"p.json", `{"plans":["a"]}`, "plans[0].name is missing: write a plan as a mapping of its fields"},
		{"p.json", `{"plans":{}}`, "plans is no list"},
		{"p.json", `{"plan":[]}`, "plan is not known: use plans, rules"},
		{"p.json", `[]`, "it is no mapping"},
		{"p.json", `{"plans":[]} x`, "more after the first value"},
		{"p.json", `{`, "unexpected EOF"},
		{"p.yaml", "plans:\n- {name: a, capacity: one, tokens_per_second: 1}", "plans[0].capacity is \"one\": use a whole number"},
		{"p.yaml", "plans:\n- {name: a, capacity: 1, tokens_per_second: .nan}", "plans[0].tokens_per_second is NaN"},
		{"p.yaml", "plans:\n- {name: a, capacity: .inf, tokens_per_second: 1}", "plans[0].capacity is +Inf"},
		{"p.yaml", "plans:\n- {name: a, kind: fixed-window, capacity: 1, window: 90}", `plans[0].window is 90: write a duration`},
		{"p.yaml", "plans: [\n", "line"},
		{"p.yaml", "plans: []\nplans: []\n", "already defined"},
		{"p.toml", "", "end the file's name in .json, .yaml or .yml"},
		{"p.json", strings.Repeat(" ", 16<<20+1), "larger than"},
	} {
		r := registry(t, daily)
		path := write(t, tc.file, tc.text)
		err := r.LoadFile(path, "rules")
		require.ErrorContains(t, err, tc.want, tc.text)
		require.ErrorContains(t, err, "load "+path+": ", "the path comes first")
		require.Equal(t, []admission.Plan{daily}, r.Plans(), "an error changes nothing")
	}
	path := filepath.Join(t.TempDir(), "none.json")
	err := registry(t).LoadFile(path)
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.Equal(t, 1, strings.Count(err.Error(), path), "the path is told once: %v", err)
}

type rule struct {
	Path string  `json:"path"`
	Cost float64 `json:"cost"`
}

func TestRegistrySaves(t *testing.T) {
	for _, name := range []string{"plans.json", "plans.yaml", "plans.YML"} {
		path := filepath.Join(t.TempDir(), name)
		r := registry(t, login, api, daily)
		rules := []rule{{"/a/**", 1}, {"/b: {}", 2.5}, {"/c", 1 << 40}}
		require.NoError(t, r.SetSection("rules", rules))
		require.NoError(t, r.Save(path))

		again := registry(t)
		require.NoError(t, again.LoadFile(path, "rules"), name)
		require.Equal(t, r.Plans(), again.Plans(), name)
		var read []rule
		ok, err := again.Section("rules", &read)
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, rules, read, name)

		require.NoError(t, os.Chmod(path, 0o640))
		require.NoError(t, again.Remove("daily"))
		require.NoError(t, again.Save(path))
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.Equal(t, fs.FileMode(0o640), info.Mode().Perm(), "the mode stays")
		require.NoError(t, r.LoadFile(path, "rules"))
		require.Equal(t, []admission.Plan{login, api}, r.Plans(), "sections of a file that was loaded are saved with it")
		entries, err := os.ReadDir(filepath.Dir(path))
		require.NoError(t, err)
		require.Len(t, entries, 1, "nothing else is left")
	}
}

func TestRegistrySaveFailsWhole(t *testing.T) {
	r := registry(t, login)
	require.ErrorContains(t, r.Save(filepath.Join(t.TempDir(), "p.txt")), "end the file's name")
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "p.json"), 0o700)) // which nothing can be renamed to
	require.Error(t, r.Save(filepath.Join(dir, "p.json")))
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1, "the unfinished file is removed")
	require.ErrorIs(t, r.Save(filepath.Join(dir, "none", "p.json")), fs.ErrNotExist)
}

func TestRegistrySections(t *testing.T) {
	r := registry(t)
	ok, err := r.Section("rules", nil)
	require.NoError(t, err)
	require.False(t, ok)
	require.Error(t, r.SetSection("plans", 1), "the name of the plans is not free")
	require.Error(t, r.SetSection("", 1))
	require.Error(t, r.SetSection("rules", func() {}))
	require.NoError(t, r.SetSection("rules", map[string]any{"path": "/", "costs": 1}))
	ok, err = r.Section("rules", &rule{})
	require.True(t, ok)
	require.ErrorContains(t, err, `rules: json: unknown field "costs"`)
	require.NoError(t, r.LoadFile(write(t, "p.yaml", "rules: {1: 2}"), "rules"))
	_, err = r.Section("rules", &rule{})
	require.ErrorContains(t, err, "rules: ", "a key that is no text")
}

// TestRegistryReplacedLive has readers see one of two sets, and never a mixture.
func TestRegistryReplacedLive(t *testing.T) {
	narrow, wide := []admission.Plan{login, api}, []admission.Plan{login, api}
	wide[0].Capacity, wide[1].Capacity = 50, 1000
	r := registry(t, narrow...)
	var wg sync.WaitGroup
	done := make(chan struct{})
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if p := r.Plans(); (p[0].Capacity == 5) != (p[1].Capacity == 100) {
					t.Errorf("a mixture of two sets: %+v", p)
					return
				}
			}
		})
	}
	for range 1000 {
		require.NoError(t, r.Replace(wide...))
		require.NoError(t, r.Replace(narrow...))
	}
	close(done)
	wg.Wait()
}

// FuzzRegistryFile has the law that a file that loads is saved so that it loads the same.
func FuzzRegistryFile(f *testing.F) {
	f.Add([]byte("plans:\n  - {name: login, kind: fixed-window, capacity: 5, window: 1m}\nrules: [{path: /a}]"), true)
	f.Add([]byte(`{"plans":[{"name":"api","capacity":100,"tokens_per_second":1.5}],"rules":{"a":[1,2.5e300,null,"~"]}}`), false)
	f.Fuzz(func(t *testing.T, text []byte, isYAML bool) {
		dir, name := t.TempDir(), "a.json"
		if isYAML {
			name = "a.yaml"
		}
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, text, 0o600))
		r := registry(t)
		if r.LoadFile(path, "rules") != nil {
			return
		}
		for _, name := range []string{"b.json", "b.yaml"} {
			path := filepath.Join(dir, name)
			if err := r.Save(path); err != nil {
				require.Contains(t, err.Error(), "json: unsupported", "%q", text) // NaN, or a key that is no text
				continue
			}
			again := registry(t)
			require.NoError(t, again.LoadFile(path, "rules"), "%q", text)
			require.Equal(t, r.Plans(), again.Plans())
		}
	})
}
