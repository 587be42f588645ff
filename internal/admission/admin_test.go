package admission_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/admission"
)

const adminToken = "a token of enough bytes"

// office is a doorway with an endpoint for its administrators.
type office struct {
	*doorway
	admin http.Handler
	file  string
	log   bytes.Buffer
}

func newOffice(t *testing.T, file string) *office {
	t.Helper()
	o := &office{doorway: newDoorway(t, onePlan(two, nil)), file: file}
	var err error
	o.admin, err = admission.Admin(admission.AdminConfig{
		Token: adminToken, Rules: o.rules, Admitter: o.admitter, File: file, Log: slog.New(slog.NewTextHandler(&o.log, nil)),
	})
	require.NoError(t, err)
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
		"the Token is missing": {Rules: o.rules, Admitter: o.admitter, Token: "short"},
		"Rules is missing":     {Admitter: o.admitter, Token: adminToken},
		"Admitter is missing":  {Rules: o.rules, Token: adminToken},
		"the File rules.txt":   {Rules: o.rules, Admitter: o.admitter, Token: adminToken, File: "rules.txt"},
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
		require.Equal(t, o.registry.Plans(), other.registry.Plans())

		require.Equal(t, http.StatusNoContent, o.do(http.MethodDelete, "/rules/admin", "").Code)
		require.Equal(t, http.StatusNoContent, o.do(http.MethodDelete, "/plans/tiny", "").Code)
		w = o.do(http.MethodPut, "/rules", `{"rules": [{"name": "x", "path": "/x", "plans": ["two"]}], "exclude": ["/y"]}`)
		require.Equal(t, http.StatusOK, w.Code, w.Body)
		require.NoError(t, other.rules.LoadFile(o.file))
		require.Equal(t, "x", other.rules.Rules()[0].Name)
		require.Equal(t, []string{"/y"}, other.rules.Excluded())
		require.Len(t, other.registry.Plans(), 1)
	}
}

func TestAdminStatistics(t *testing.T) {
	o := newOffice(t, "")
	for range 3 {
		o.get("/")
	}
	var s admission.Statistics
	require.NoError(t, json.Unmarshal(o.do(http.MethodGet, "/statistics", "").Body.Bytes(), &s))
	require.Equal(t, admission.Statistics{Allowed: 2, Denied: 1}, s)
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
		plans, rules := o.registry.Plans(), o.rules.Rules()
		w := o.do(tc.method, tc.target, tc.body)
		require.Equal(t, tc.code, w.Code, tc.body)
		require.Equal(t, "application/problem+json", w.Header().Get("Content-Type"))
		require.Contains(t, w.Body.String(), tc.want)
		require.Equal(t, plans, o.registry.Plans())
		require.Equal(t, rules, o.rules.Rules())
	}
	require.NoFileExists(t, file, "nothing was saved")
}

// TestAdminTakesBackWhatItCannotSave: what is answered with an error is not in force, and
// the file is as it was.
func TestAdminTakesBackWhatItCannotSave(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "gone")
	require.NoError(t, os.Mkdir(dir, 0o700))
	o := newOffice(t, filepath.Join(dir, "rules.json"))
	require.NoError(t, os.Remove(dir))
	w := o.do(http.MethodPut, "/plans/p", `{"capacity": 1, "tokens_per_second": 1}`)
	require.Equal(t, http.StatusInternalServerError, w.Code)
	require.NotContains(t, w.Body.String(), dir, "where files are is nobody's business")
	require.Contains(t, o.log.String(), dir)
	require.Len(t, o.registry.Plans(), 1)
	w = o.do(http.MethodPut, "/rules", `{"rules": []}`)
	require.Equal(t, http.StatusInternalServerError, w.Code)
	require.Len(t, o.rules.Rules(), 1)
}
