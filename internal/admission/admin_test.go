package admission_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/admission"
)

const adminToken = "a token of enough bytes"

type office struct {
	*doorway
	admin http.Handler
	file  string
	log   bytes.Buffer
}

func newOffice(t *testing.T, file string) *office {
	t.Helper()
	o := &office{doorway: newDoorway(t, onePlan(two, nil)), file: file}
	o.admin = must(admission.Admin(admission.AdminConfig{
		Token: adminToken, Admitter: o.admitter, File: file, Log: slog.New(slog.NewTextHandler(&o.log, nil)),
	}))
	return o
}

func (o *office) do(method, target, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+adminToken)
	w := httptest.NewRecorder()
	o.admin.ServeHTTP(w, r)
	return w
}

func TestAdminNeedsTheToken(t *testing.T) {
	o := newOffice(t, "")
	for _, auth := range []string{"", "Bearer", "Bearer ", "Bearer " + adminToken + "x", "Bearer " + adminToken[1:], "Basic " + adminToken, adminToken} {
		for _, target := range []string{"/plans", "/rules", "/statistics", "/none"} {
			r := httptest.NewRequest(http.MethodGet, target, nil)
			r.Header.Set("Authorization", auth)
			w := httptest.NewRecorder()
			o.admin.ServeHTTP(w, r)
			require.Equal(t, http.StatusUnauthorized, w.Code, auth)
			require.Equal(t, `Bearer realm="admission"`, w.Header().Get("WWW-Authenticate"))
			require.NotContains(t, w.Body.String(), "two")
		}
	}
	require.NotContains(t, o.log.String(), adminToken[1:])
	require.Equal(t, http.StatusOK, o.do(http.MethodGet, "/plans", "").Code)
	require.Equal(t, http.StatusNotFound, o.do(http.MethodGet, "/none", "").Code)
	require.Equal(t, http.StatusMethodNotAllowed, o.do(http.MethodPost, "/plans", "").Code)
}

func TestAdminRejects(t *testing.T) {
	o := newOffice(t, "")
	for want, cfg := range map[string]admission.AdminConfig{
		"the Token is missing": {Admitter: o.admitter, Token: "short"},
		"Admitter is missing":  {Token: adminToken},
		"the File rules.txt":   {Admitter: o.admitter, Token: adminToken, File: "rules.txt"},
	} {
		_, err := admission.Admin(cfg)
		require.ErrorContains(t, err, want)
	}
}

// TestAdminChangesTakeEffectAndPersist goes through all that can be changed, and reads
// the file as another process would.
func TestAdminChangesTakeEffectAndPersist(t *testing.T) {
	for _, name := range []string{"rules.json", "rules.yaml"} {
		o := newOffice(t, filepath.Join(t.TempDir(), name))
		require.JSONEq(t, `{"rules": [{"name": "all", "path": "/**", "plans": ["two"]}], "exclude": []}`,
			o.do(http.MethodGet, "/rules", "").Body.String())

		w := o.do(http.MethodPut, "/plans/tiny", `{"capacity": 1, "tokens_per_second": 0.01}`)
		require.Equal(t, http.StatusOK, w.Code, w.Body)
		w = o.do(http.MethodPut, "/rules/admin?before=all", `{"path": "/admin/**", "plans": ["tiny"], "wait": "1s"}`)
		require.Equal(t, http.StatusOK, w.Code, w.Body)
		require.Equal(t, "admin", ruleFor(o.rules, "GET /admin/x"))

		require.Equal(t, http.StatusConflict, o.do(http.MethodDelete, "/plans/two", "").Code, "a rule uses it")
		require.Contains(t, o.do(http.MethodGet, "/plans", "").Body.String(), `"two"`)

		w = o.do(http.MethodPut, "/plans/two", `{"name": "two", "kind": "fixed-window", "capacity": 1, "window": "1h"}`)
		require.Equal(t, http.StatusOK, w.Code, w.Body)
		require.Equal(t, "1", o.get("/").Header().Get("X-RateLimit-Limit"))

		require.Equal(t, http.StatusTooManyRequests, o.get("/").Code)
		require.Equal(t, http.StatusNoContent, o.do(http.MethodDelete, "/keys/ip:192.0.2.1", "").Code)
		require.Equal(t, http.StatusOK, o.get("/").Code, "the key is forgotten")

		other := newOffice(t, "")
		require.NoError(t, other.rules.LoadFile(o.file))
		require.Equal(t, o.rules.Rules(), other.rules.Rules())
		require.Equal(t, o.rules.Plans(), other.rules.Plans())

		require.Equal(t, http.StatusNoContent, o.do(http.MethodDelete, "/rules/admin", "").Code)
		require.Equal(t, http.StatusNoContent, o.do(http.MethodDelete, "/plans/tiny", "").Code)
		w = o.do(http.MethodPut, "/rules", `{"rules": [{"name": "x", "path": "/x", "plans": ["two"]}], "exclude": ["/y"]}`)
		require.Equal(t, http.StatusOK, w.Code, w.Body)
		require.NoError(t, other.rules.LoadFile(o.file))
		require.Equal(t, "x", other.rules.Rules()[0].Name)
		require.Equal(t, []string{"/y"}, other.rules.Excluded())
		require.Len(t, other.rules.Plans(), 1)
	}
}

func TestAdminStatistics(t *testing.T) {
	o := newOffice(t, "")
	for range 3 {
		o.get("/")
	}
	var s admission.Statistics
	require.NoError(t, json.Unmarshal(o.do(http.MethodGet, "/statistics", "").Body.Bytes(), &s))
	require.Equal(t, admission.Statistics{Allowed: 2, Denied: 1, Rules: []admission.RuleStatistics{{Rule: "all", Allowed: 2, Denied: 1}}}, s)
}

func TestAdminRefusesWhatIsWrong(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rules.json")
	o := newOffice(t, file)
	for _, tc := range []struct {
		method, target, body string
		code                 int
		want                 string
	}{
		{http.MethodPut, "/plans/p", `{"capacity": 0}`, 400, "capacity is 0"},
		{http.MethodPut, "/plans/p", `{"capacity": 1, "tokens_per_second": 1, "burst": 2}`, 400, "burst is not known"},
		{http.MethodPut, "/plans/p", `{"name": "q", "capacity": 1, "tokens_per_second": 1}`, 400, "leave it out"},
		{http.MethodPut, "/plans/p", `null`, 400, "capacity"},
		{http.MethodPut, "/plans/p%20q", `{"capacity": 1, "tokens_per_second": 1}`, 400, "name is"},
		{http.MethodPut, "/plans/p", `{`, 400, "EOF"},
		{http.MethodPut, "/plans/p", `{} {}`, 400, "more after the first value"},
		{http.MethodPut, "/plans/p", `{"x": "` + strings.Repeat("x", 1<<20) + `"}`, 413, "too large"},
		{http.MethodDelete, "/plans/none", "", 404, "unknown plan"},
		{http.MethodDelete, "/rules/none", "", 404, "unknown rule"},
		{http.MethodPut, "/rules/r", `{"path": "/"}`, 400, "plans is empty"},
		{http.MethodPut, "/rules/r", `{"path": "/", "plans": ["none"]}`, 400, "none"},
		{http.MethodPut, "/rules/r", `{"path": "/", "plan": "two"}`, 400, "plan"},
		{http.MethodPut, "/rules/r", `{"name": "s", "path": "/", "plans": ["two"]}`, 400, "leave it out"},
		{http.MethodPut, "/rules/r?before=none", `{"path": "/", "plans": ["two"]}`, 404, "unknown rule"},
		{http.MethodPut, "/rules", `{"rules": [], "exclude": ["x"]}`, 400, "exclude[0]"},
		{http.MethodPut, "/rules", `{"exclude": ["/x"]}`, 400, "rules is missing"},
		{http.MethodPut, "/rules", `null`, 400, "rules is missing"},
		{http.MethodPut, "/plans/two", `{"kind": "fixed-window", "capacity": 1, "window": "1m"}`, 409, "cost is 2"},
	} {
		require.NoError(t, o.rules.Put(admission.Rule{Name: "all", Path: "/**", Plans: []string{"two"}, Cost: 2}, ""))
		plans, rules := o.rules.Plans(), o.rules.Rules()
		w := o.do(tc.method, tc.target, tc.body)
		require.Equal(t, tc.code, w.Code, tc.body)
		require.Equal(t, "application/problem+json", w.Header().Get("Content-Type"))
		require.Contains(t, w.Body.String(), tc.want)
		require.Equal(t, plans, o.rules.Plans())
		require.Equal(t, rules, o.rules.Rules())
	}
	require.NoFileExists(t, file, "nothing was saved")
}

// TestAdminTakesBackWhatItCannotSave: what is answered with an error is not in force, and the file is as it was.
func TestAdminTakesBackWhatItCannotSave(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "gone")
	require.NoError(t, os.Mkdir(dir, 0o700))
	o := newOffice(t, filepath.Join(dir, "rules.json"))
	require.NoError(t, os.Remove(dir))
	w := o.do(http.MethodPut, "/plans/p", `{"capacity": 1, "tokens_per_second": 1}`)
	require.Equal(t, http.StatusInternalServerError, w.Code)
	require.NotContains(t, w.Body.String(), dir, "where files are is nobody's business")
	require.Contains(t, o.log.String(), dir)
	require.Len(t, o.rules.Plans(), 1)
	w = o.do(http.MethodPut, "/rules", `{"rules": []}`)
	require.Equal(t, http.StatusInternalServerError, w.Code)
	require.Len(t, o.rules.Rules(), 1)
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
		s := plansOf(daily)
		require.NoError(t, s.LoadFile(write(t, name, text)), name)
		require.Equal(t, []admission.Plan{login, api}, s.Plans(), name)
	}
	s := plansOf(daily)
	require.NoError(t, s.LoadFile(write(t, "none.yml", "rules: []")))
	require.Empty(t, s.Plans())
}

func TestLoadFileErrors(t *testing.T) {
	const good = `{"name":"a","capacity":1,"tokens_per_second":1}`
	for _, tc := range []struct{ file, text, want string }{
		{"p.json", `{"plans":[` + good + `,{"name":"b"}]}`, "plans[1].capacity is 0: use a whole number from 1 to 1099511627776"},
		{"p.json", `{"plans":[` + good + `,` + good + `],"rules":[]}`, `plans[1].name is "a": use another name, plans[0] has it`},
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
		{"p.yaml", "plans: [{name: n, capacity: 1, tokens_per_second: 1}]\nrules: [{name: x, path: /, plans: [daily]}]", `rules[0].plans[0] is "daily"`},
		{"p.yaml", "rules: [{name: x, pathh: /}]", "pathh"},
		{"p.yaml", "rules: {}", "rules"},
		{"p.yaml", "", "rules is missing"},
		{"p.yaml", "plans: []", "rules is missing"},
		{"p.yaml", "rules:", "rules is missing"},
		{"p.yaml", "exclude: [1]", "exclude"},
		{"p.yaml", "plans: [{name: n}]", "plans[0].capacity"},
		{"p.yaml", "rules: [{name: x, path: /, wait: soon}]", `wait is "soon"`},
		{"p.yaml", "rules: [{name: x, path: /, concurrency: 1.5}]", "concurrency"},
		{"p.toml", "", "end the file's name in .json, .yaml or .yml"},
		{"p.json", strings.Repeat(" ", 16<<20+1), "larger than"},
	} {
		s := plansOf(daily)
		require.NoError(t, s.Put(admission.Rule{Name: "r", Path: "/", Plans: []string{"daily"}}, ""))
		path := write(t, tc.file, tc.text)
		err := s.LoadFile(path)
		require.ErrorContains(t, err, tc.want, tc.text)
		require.ErrorContains(t, err, "load "+path+": ", "the path comes first")
		require.Equal(t, []admission.Plan{daily}, s.Plans(), "an error changes nothing")
		require.Equal(t, "r", ruleFor(s, "GET /"))
	}
	path := filepath.Join(t.TempDir(), "none.json")
	s := plansOf()
	err := s.LoadFile(path)
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.Equal(t, 1, strings.Count(err.Error(), path), "the path is told once: %v", err)
}

func TestSave(t *testing.T) {
	bytes := admission.Plan{Name: "bytes", Kind: admission.KindTokenBucket, Capacity: 1 << 40, TokensPerSecond: 1e-9}
	for _, name := range []string{"limits.json", "limits.yaml", "limits.YML"} {
		path := filepath.Join(t.TempDir(), name)
		s := plansOf(login, api, bytes, daily)
		rules := []admission.Rule{{Name: "a", Path: "/a/**", Plans: []string{"api"}}, {Name: "b", Path: "/b: {}", Plans: []string{"bytes"}, Cost: 1 << 40}}
		require.NoError(t, s.Replace(s.Plans(), rules, []string{"/health"}))
		require.NoError(t, s.Save(path))

		again := plansOf()
		require.NoError(t, again.LoadFile(path), name)
		require.Equal(t, s.Plans(), again.Plans(), name)
		require.Equal(t, rules, again.Rules(), name)
		require.Equal(t, []string{"/health"}, again.Excluded(), name)

		require.NoError(t, os.Chmod(path, 0o640))
		require.NoError(t, again.Replace(again.Plans()[:3], rules, nil))
		require.NoError(t, again.Save(path))
		require.Equal(t, fs.FileMode(0o640), must(os.Stat(path)).Mode().Perm(), "the mode stays")
		require.NoError(t, s.LoadFile(path))
		require.Equal(t, []admission.Plan{login, api, bytes}, s.Plans())
		require.Len(t, must(os.ReadDir(filepath.Dir(path))), 1, "nothing else is left")
	}
}

func TestSaveFailsWhole(t *testing.T) {
	s := plansOf(login)
	require.ErrorContains(t, s.Save(filepath.Join(t.TempDir(), "p.txt")), "end the file's name")
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "p.json"), 0o700)) // which nothing can be renamed to
	require.Error(t, s.Save(filepath.Join(dir, "p.json")))
	require.Len(t, must(os.ReadDir(dir)), 1, "the unfinished file is removed")
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
		s := plansOf()
		if s.LoadFile(path) != nil {
			return
		}
		for _, name := range []string{"b.json", "b.yaml"} {
			path := filepath.Join(dir, name)
			require.NoError(t, s.Save(path), "%q", text)
			again := plansOf()
			require.NoError(t, again.LoadFile(path), "%q", text)
			require.Equal(t, s.Plans(), again.Plans())
			require.Equal(t, s.Rules(), again.Rules())
			require.Equal(t, s.Excluded(), again.Excluded())
		}
	})
}

// TestProgramAndAdministratorAtOnce change different things, and neither takes back what the other did.
func TestProgramAndAdministratorAtOnce(t *testing.T) {
	o := newOffice(t, filepath.Join(t.TempDir(), "rules.json"))
	const each = 50
	var all sync.WaitGroup
	all.Go(func() {
		for i := range each {
			name := fmt.Sprint("program-", i)
			if err := o.rules.PutPlan(admission.Plan{Name: name, Capacity: 1, TokensPerSecond: 1}); err != nil {
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
	require.Len(t, o.rules.Plans(), 1+2*each)
	require.Len(t, o.rules.Rules(), 1+2*each)
}

// TestFilesAreInForceWhole loads two files in turn, of which each forbids by itself: the cost of the one and the plan
// of the other, or the rule of the one and the plans of the other, are never together.
func TestFilesAreInForceWhole(t *testing.T) {
	cfg := onePlan(admission.Plan{Name: "p", Capacity: 1, TokensPerSecond: 1e-9}, nil)
	cfg.bubble = true              // of no bubble: it has the time of the system, too
	cfg.deadline = 5 * time.Minute // a busy machine is not a store that is down
	d := newDoorway(t, cfg)
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
	var over atomic.Bool
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for !over.Load() {
				w := d.get("/")
				if w.Code != out {
					t.Errorf("status %d, want %d: %s", w.Code, out, w.Body)
				}
				if got := w.Header().Get("RateLimit-Policy") + " " + w.Header().Get("X-RateLimit-Limit"); !whole[got] {
					t.Errorf("half a set of rules: %s", got)
				}
				if w.Header().Get("Retry-After") == "" {
					t.Errorf("half a set of rules: %s", w.Body)
				}
			}
		})
	}
	for range 300 {
		for name := range files {
			require.NoError(t, d.rules.LoadFile(filepath.Join(dir, name)))
		}
	}
	over.Store(true)
	all.Wait()
	require.Zero(t, d.admitter.Statistics().FailedOpen)
}
