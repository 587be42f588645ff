package crawl

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/admission"
	"github.com/treadlight/crawl/internal/ratelimit"
)

func filled(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		if t, ok := reflect.TypeAssert[*time.Time](v.Addr()); ok {
			*t = time.Unix(1, 0)
			return
		}
		for _, field := range v.Fields() {
			if field.CanSet() {
				filled(field)
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		filled(v.Index(0))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		filled(v.Elem())
	case reflect.String:
		v.SetString("text")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Float64, reflect.Float32:
		v.SetFloat(1.5)
	case reflect.Int, reflect.Int64:
		v.SetInt(7)
	case reflect.Uint64, reflect.Uint8:
		v.SetUint(1)
	}
}

// convertedWhole requires that a conversion loses no field: each has one of the same name, or of its other name, that
// is set and prints as it does.
func convertedWhole[A, B any](t *testing.T, convert func(*A) B, names map[string]string) {
	t.Helper()
	from := reflect.New(reflect.TypeFor[A]()).Elem()
	filled(from)
	to := reflect.ValueOf(convert(from.Addr().Interface().(*A)))
	require.Equal(t, from.NumField(), to.NumField()+countUnexported(from.Type())-countUnexported(to.Type()), "%T and %T", from.Interface(), to.Interface())
	for i := range from.NumField() {
		f := from.Type().Field(i)
		if !f.IsExported() {
			continue
		}
		name := f.Name
		if other := names[name]; other != "" {
			name = other
		}
		got := to.FieldByName(name)
		require.True(t, got.IsValid(), "%T.%s", from.Interface(), name)
		require.False(t, got.IsZero(), "%T.%s is lost", from.Interface(), name)
		if k := got.Kind(); k != reflect.Slice && k != reflect.Pointer && k != reflect.Struct {
			require.Equal(t, fmt.Sprint(from.Field(i).Interface()), fmt.Sprint(got.Interface()), name)
		}
		if g, ok := to.Type().FieldByName(name); ok {
			require.Equal(t, f.Tag.Get("json"), g.Tag.Get("json"), "%T.%s", from.Interface(), name)
		}
	}
}

func countUnexported(t reflect.Type) (n int) {
	for f := range t.Fields() {
		if !f.IsExported() {
			n++
		}
	}
	return n
}

// The types that programs see have all that those behind them have, under the same names in JSON.
func TestConversionsLoseNothing(t *testing.T) {
	convertedWhole(t, admitResultOf, nil)
	convertedWhole(t, denialOf, nil)
	convertedWhole(t, eventOf, nil)
	convertedWhole(t, capSnapshotOf, nil)
	convertedWhole(t, hostSnapshotOf, map[string]string{"Domain": "Host"})
	convertedWhole(t, func(s *ratelimit.LimiterSnapshot) LimiterSnapshot { return limiterSnapshotOf(*s) }, nil)
	e := ratelimit.Event{}
	filled(reflect.ValueOf(&e).Elem())
	there := eventOf(&e)
	require.Equal(t, e, there.inner())

	// Those of settings are given by programs; tags are of files.
	for name, pair := range map[string][2]any{
		"plan": {new(AdmitPlan), func(v any) any { return planOf(v.(*AdmitPlan)) }},
		"rule": {new(AdmitRule), func(v any) any { return ruleOf(v.(*AdmitRule)) }},
	} {
		from := reflect.ValueOf(pair[0]).Elem()
		filled(from)
		to := reflect.ValueOf(pair[1].(func(any) any)(pair[0]))
		require.Equal(t, from.NumField(), to.NumField(), name)
		for i := range from.NumField() {
			field := from.Type().Field(i).Name
			require.Equal(t, fmt.Sprint(from.Field(i).Interface()), fmt.Sprint(to.FieldByName(field).Interface()), "%s: %s", name, field)
		}
	}
}

func TestAdmitConfigIsConvertedWhole(t *testing.T) {
	c := AdmitConfig{
		Plans: []AdmitPlan{{}}, Rules: []AdmitRule{{}}, Exclude: []string{}, File: "f", Store: "s", Processes: 2, Process: 1,
		Deadline: 1, Lease: 1, OnError: "open", Trusted: []netip.Prefix{{}}, Principal: func(*http.Request) string { return "" },
		Keys: map[string]func(*http.Request) (string, error){}, Costs: map[string]func(*http.Request) int64{},
		Bypass: []string{}, Exempt: func(*http.Request) bool { return true }, Headers: "none", Shadow: true,
		Deny: func(http.ResponseWriter, *http.Request, Denial) {}, OnDenied: func(Denial) {}, Log: slog.Default(), AdminToken: "t",
	}
	from, to := reflect.ValueOf(c), reflect.ValueOf(c.inner())
	for i := range from.NumField() {
		name := from.Type().Field(i).Name
		require.False(t, from.Field(i).IsZero(), "set %s here", name)
		kept := false
		for _, part := range []reflect.Value{to, to.FieldByName("RuleSet"), to.FieldByName("Middleware")} {
			got := part.FieldByName(name)
			kept = kept || got.IsValid() && !got.IsZero()
		}
		require.True(t, kept, "%s is lost", name)
	}
	require.Nil(t, (&AdmitConfig{}).inner().Rules)
	require.NotNil(t, (&AdmitConfig{Rules: []AdmitRule{}}).inner().Rules, "a list of no rules is none")
}

// What a program sees of decisions: results, denials, errors, and statistics by rule; some requests are exempt.
func TestAdmitTells(t *testing.T) {
	var denied []Denial
	a, err := Admit(AdmitConfig{
		Plans: []AdmitPlan{{Name: "one", Kind: "fixed-window", Capacity: 1, Window: 24 * time.Hour}},
		Rules: []AdmitRule{
			{Name: "looks", Path: "/look/**", Plans: []string{"one"}, Key: "route", Shadow: true},
			{Name: "all", Path: "/**", Plans: []string{"one"}},
		},
		Exempt:   func(r *http.Request) bool { return r.UserAgent() == "monitor" },
		OnDenied: func(d Denial) { denied = append(denied, d) },
	})
	require.NoError(t, err)
	defer func() { require.NoError(t, a.Close()) }()
	h := a.Handler(http.NotFoundHandler())
	ask := func(path, agent string) int {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody)
		r.Header.Set("User-Agent", agent)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code
	}
	require.Equal(t, []int{404, 429, 404}, []int{ask("/a", ""), ask("/a", ""), ask("/a", "monitor")})
	require.Equal(t, []int{404, 404}, []int{ask("/look/x", ""), ask("/look/x", "")})
	require.Len(t, denied, 2)
	require.Equal(t, "LIMITED", denied[0].Result.Reason)
	require.Equal(t, "SHADOW", denied[1].Result.Reason)
	s := a.Statistics()
	require.Equal(t, []AdmitRuleStatistics{
		{Rule: "looks", Allowed: 1, Shadowed: 1}, {Rule: "all", Allowed: 1, Denied: 1},
	}, s.Rules)
	require.EqualValues(t, 1, s.Exempt)

	res, err := a.Allow(t.Context(), "k", []string{"one"}, 1)
	require.NoError(t, err)
	require.True(t, res.Allowed)
	call := func(context.Context) error { t.Error("it was called"); return nil }
	err = a.Guard(t.Context(), "k", []string{"one"}, 1, call)
	refused, ok := errors.AsType[*DeniedError](err)
	require.True(t, ok)
	require.ErrorIs(t, err, ErrDenied)
	require.Positive(t, refused.Result.Wait)
	require.ErrorContains(t, err, "one")
	own := fmt.Errorf("mine: %w", &admission.DeniedError{})
	require.Same(t, own, a.Guard(t.Context(), "l", []string{"one"}, 1, func(context.Context) error { return own }))

	require.NoError(t, a.Remove(t.Context(), "k"))
	n, err := a.RemoveWhere(t.Context(), func(key string) bool { return key == "l" })
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.NoError(t, a.Guard(t.Context(), "k", []string{"one"}, 1, func(context.Context) error { return nil }))
}

// What the documentation of AdmitRule says of keys is what a Denial has, and what Remove takes.
func TestAdmitSpellsKeys(t *testing.T) {
	var denied []string
	own := func(*http.Request) (string, error) { return "acme", nil }
	rules := make([]AdmitRule, 0, 8)
	for i, key := range []string{"ip", "user", "route", "global", "header:X-Api-Key", "tenant", "user+ip"} {
		rules = append(rules, AdmitRule{Name: fmt.Sprint("r", i), Path: fmt.Sprint("/", i), Key: key, Plans: []string{"one"}})
	}
	rules = append(rules, AdmitRule{Name: "behind", Path: "/**", Key: "global", Plans: []string{"one"}})
	a, err := Admit(AdmitConfig{
		Plans: []AdmitPlan{{Name: "one", Capacity: 1, TokensPerSecond: 1e-9}}, Rules: rules, Deny: func(w http.ResponseWriter, _ *http.Request, d Denial) {
			denied = append(denied, d.Key)
			w.WriteHeader(d.Status)
		},
		Keys: map[string]func(*http.Request) (string, error){"tenant": own}, Principal: func(*http.Request) string { return "anna" },
	})
	require.NoError(t, err)
	defer func() { require.NoError(t, a.Close()) }()
	handler := a.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	ask := func(i int) int {
		r := httptest.NewRequest(http.MethodGet, fmt.Sprint("/", i), nil)
		r.RemoteAddr, r.Header = "192.0.2.1:4711", http.Header{"X-Api-Key": {"secret"}}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		return w.Code
	}
	want := []string{"ip:192.0.2.1", "user:anna", "route:GET /2", "global", "header:X-Api-Key:secret", "key:tenant:acme", "all:9:user:anna12:ip:192.0.2.1"}
	for i, key := range want {
		require.Equal(t, []int{200, 429}, []int{ask(i), ask(i)}, key)
		require.Equal(t, key, denied[i])
		require.NoError(t, a.Remove(t.Context(), key))
		require.Equal(t, 200, ask(i), key)
	}
	last := a.Statistics().Rules[len(want)]
	require.Equal(t, AdmitRuleStatistics{Rule: "behind"}, last, "the first rule counts")
}
