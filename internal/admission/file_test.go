package admission_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/admission"
)

// limitsOf is a registry of these plans and a set of no rules over it.
func limitsOf(t *testing.T, plans ...admission.Plan) (*admission.Registry, *admission.RuleSet) {
	t.Helper()
	r := registry(t, plans...)
	s, err := admission.NewRuleSet(admission.RuleSetConfig{Registry: r}, []admission.Rule{}, nil)
	require.NoError(t, err)
	return r, s
}

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestLoadFile(t *testing.T) {
	for name, text := range map[string]string{
		"limits.yaml": "plans:\n  - {name: login, kind: fixed-window, capacity: 5, window: 1m}\n  - name: api\n    capacity: 1e2\n    tokens_per_second: 1.5\nrules: []\n",
		"limits.json": "{\n\t\"rules\": [], \"plans\": [\n\t\t{\"name\": \"login\", \"kind\": \"fixed-window\", \"capacity\": 5, \"window\": \"1m\"},\n" +
			"\t\t{\"name\": \"api\", \"capacity\": 100, \"tokens_per_second\": 1.5}]}",
	} {
		r, s := limitsOf(t, daily)
		require.NoError(t, s.LoadFile(write(t, name, text)), name)
		require.Equal(t, []admission.Plan{login, api}, r.Plans(), name)
	}
	r, s := limitsOf(t, daily)
	require.NoError(t, s.LoadFile(write(t, "none.yml", "rules: []")))
	require.Empty(t, r.Plans())
}

func TestLoadFileErrors(t *testing.T) {
	const good = `{"name":"a","capacity":1,"tokens_per_second":1}`
	for _, tc := range []struct{ file, text, want string }{
		{"p.json", `{"plans":[` + good + `,{"name":"b"}]}`, "plans[1].capacity is 0: use a whole number from 1 to 1099511627776"},
		{"p.json", `{"plans":[` + good + `,` + good + `]}`, `plans[1].name is "a": use another name, plans[0] has it`},
		{"p.json", `{"plans":[{"name":"a","rate":1}]}`, "plans[0].rate is not known: use name, kind, capacity, tokens_per_second, window"},
		{"p.json", `{"plans":["a"]}`, "plans[0].name is missing: write a plan as a mapping of its fields"},
		{"p.json", `{"plans":{}}`, "plans is no list"},
		{"p.json", `{"plan":[]}`, "plan is not known: use plans, rules"},
		{"p.json", `[]`, "it is no mapping"},
		{"p.json", `{"plans":[]} x`, "more after the first value"},
		{"p.json", `{`, "unexpected EOF"},
		{"p.json", `{"rules":[{"path":"/","costs":1}]}`, `rules: json: unknown field "costs"`},
		{"p.yaml", "rules: {1: 2}", "rules: "}, // a key that is no text
		{"p.yaml", "plans:\n- {name: a, capacity: one, tokens_per_second: 1}", "plans[0].capacity is \"one\": use a whole number"},
		{"p.yaml", "plans:\n- {name: a, capacity: 1, tokens_per_second: .nan}", "plans[0].tokens_per_second is NaN"},
		{"p.yaml", "plans:\n- {name: a, capacity: .inf, tokens_per_second: 1}", "plans[0].capacity is +Inf"},
		{"p.yaml", "plans:\n- {name: a, kind: fixed-window, capacity: 1, window: 90}", `plans[0].window is 90: write a duration`},
		{"p.yaml", "plans: [\n", "line"},
		{"p.yaml", "plans: []\nplans: []\n", "already defined"},
		{"p.toml", "", "end the file's name in .json, .yaml or .yml"},
		{"p.json", strings.Repeat(" ", 16<<20+1), "larger than"},
	} {
		r, s := limitsOf(t, daily)
		path := write(t, tc.file, tc.text)
		err := s.LoadFile(path)
		require.ErrorContains(t, err, tc.want, tc.text)
		require.ErrorContains(t, err, "load "+path+": ", "the path comes first")
		require.Equal(t, []admission.Plan{daily}, r.Plans(), "an error changes nothing")
	}
	path := filepath.Join(t.TempDir(), "none.json")
	_, s := limitsOf(t)
	err := s.LoadFile(path)
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.Equal(t, 1, strings.Count(err.Error(), path), "the path is told once: %v", err)
}

func TestSave(t *testing.T) {
	bytes := admission.Plan{Name: "bytes", Kind: admission.KindTokenBucket, Capacity: 1 << 40, TokensPerSecond: 1e-9}
	for _, name := range []string{"limits.json", "limits.yaml", "limits.YML"} {
		path := filepath.Join(t.TempDir(), name)
		r, s := limitsOf(t, login, api, bytes, daily)
		rules := []admission.Rule{{Name: "a", Path: "/a/**", Plans: []string{"api"}}, {Name: "b", Path: "/b: {}", Plans: []string{"bytes"}, Cost: 1 << 40}}
		require.NoError(t, s.Replace(rules, []string{"/health"}))
		require.NoError(t, s.Save(path))

		readPlans, again := limitsOf(t)
		require.NoError(t, again.LoadFile(path), name)
		require.Equal(t, r.Plans(), readPlans.Plans(), name)
		require.Equal(t, rules, again.Rules(), name)
		require.Equal(t, []string{"/health"}, again.Excluded(), name)

		require.NoError(t, os.Chmod(path, 0o640))
		require.NoError(t, readPlans.Remove("daily"))
		require.NoError(t, again.Replace(rules, nil))
		require.NoError(t, again.Save(path))
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.Equal(t, fs.FileMode(0o640), info.Mode().Perm(), "the mode stays")
		require.NoError(t, s.LoadFile(path))
		require.Equal(t, []admission.Plan{login, api, bytes}, r.Plans())
		entries, err := os.ReadDir(filepath.Dir(path))
		require.NoError(t, err)
		require.Len(t, entries, 1, "nothing else is left")
	}
}

func TestSaveFailsWhole(t *testing.T) {
	_, s := limitsOf(t, login)
	require.ErrorContains(t, s.Save(filepath.Join(t.TempDir(), "p.txt")), "end the file's name")
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "p.json"), 0o700)) // which nothing can be renamed to
	require.Error(t, s.Save(filepath.Join(dir, "p.json")))
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1, "the unfinished file is removed")
	require.ErrorIs(t, s.Save(filepath.Join(dir, "none", "p.json")), fs.ErrNotExist)
}

// FuzzFile has the law that a file that loads is saved so that it loads the same.
func FuzzFile(f *testing.F) {
	f.Add([]byte("plans:\n  - {name: login, kind: fixed-window, capacity: 5, window: 1m}\nrules: [{name: a, path: /a, plans: [login]}]"), true)
	f.Add([]byte(`{"plans":[{"name":"api","capacity":100,"tokens_per_second":1.5}],"rules":[{"name":"~","path":"/","wait":"2.5s","concurrency":1}],"exclude":["/b"]}`), false)
	f.Fuzz(func(t *testing.T, text []byte, isYAML bool) {
		dir, name := t.TempDir(), "a.json"
		if isYAML {
			name = "a.yaml"
		}
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, text, 0o600))
		r, s := limitsOf(t)
		if s.LoadFile(path) != nil {
			return
		}
		for _, name := range []string{"b.json", "b.yaml"} {
			path := filepath.Join(dir, name)
			require.NoError(t, s.Save(path), "%q", text)
			plans, again := limitsOf(t)
			require.NoError(t, again.LoadFile(path), "%q", text)
			require.Equal(t, r.Plans(), plans.Plans())
			require.Equal(t, s.Rules(), again.Rules())
			require.Equal(t, s.Excluded(), again.Excluded())
		}
	})
}
