package admission

import (
	"cmp"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
)

// maxAdminBody bounds the body of a request to the endpoint, in bytes: a thousand rules take a quarter of it.
const maxAdminBody = 1 << 20

// AdminConfig configures the endpoint for administrators.
type AdminConfig struct {
	Token    string       // requests must show this secret of 16 bytes or more as a bearer token (RFC 6750)
	Admitter *Admitter    // has the rules to change and the keys to forget. Nil is an error.
	File     string       // file to which changes are saved, as [RuleSet.LoadFile] reads it. Empty means that changes last as long as the process.
	Log      *slog.Logger // logs changes and requests with a wrong token. Nil means no log.
}

// Admin returns the endpoint that shows plans and rules and changes them while requests are in flight:
//
//	GET    /plans               returns all plans
//	PUT    /plans/{name}        adds a plan or changes it
//	DELETE /plans/{name}        removes a plan that no rule uses
//	GET    /rules               returns the rules in their order, and the exclusions
//	PUT    /rules               replaces all rules
//	PUT    /rules/{name}        adds a rule at the end, or changes it in its place
//	PUT    /rules/{name}?before={rule}  does the same, and moves the rule before the other one
//	DELETE /rules/{name}        removes a rule
//	DELETE /keys/{key}          forgets what a key has used of all plans; write slashes of the key as %2F
//	GET    /statistics          returns what was counted so far
//
// Plans and rules are written as in files. If they are wrong, the response is a problem document (RFC 9457) with status
// 400, or 409 if the change contradicts the other plans and rules. A change is first saved, then put in force, and then
// answered. A change that cannot be saved never comes into force; its response has status 500.
//
// Mount it with [http.StripPrefix], over TLS or on loopback: the token is a password.
func Admin(cfg AdminConfig) (http.Handler, error) {
	switch {
	case len(cfg.Token) < minToken:
		return nil, fmt.Errorf("the Token is missing or too short: use %d bytes or more, chosen at random", minToken)
	case cfg.Admitter == nil:
		return nil, errors.New("Admitter is missing: give one of New")
	}
	if cfg.File != "" {
		if _, err := formatOf(cfg.File); err != nil {
			return nil, fmt.Errorf("the File %s: %w", cfg.File, err)
		}
	}
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	rules := cfg.Admitter.cfg.Rules
	a := &admin{cfg: cfg, token: sha256.Sum256([]byte(cfg.Token)), mux: http.NewServeMux()}
	a.cfg.Token = "" // not needed any longer
	for pattern, get := range map[string]func() any{
		"GET /plans":      func() any { return map[string]any{plansSection: rules.Plans()} },
		"GET /statistics": func() any { return cfg.Admitter.Statistics() },
		"GET /rules": func() any { // both are of one table, even if a change comes between
			given := &rules.table.Load().given
			return ruleList{given.rules, given.exclude}
		},
	} {
		a.mux.HandleFunc(pattern, func(w http.ResponseWriter, _ *http.Request) { answer(w, get()) })
	}
	for pattern, read := range map[string]func(*http.Request) (any, change, error){
		"PUT /plans/{name}": putPlan, "PUT /rules": putRules, "PUT /rules/{name}": putRule,
		"DELETE /plans/{name}": func(r *http.Request) (any, change, error) {
			return nil, func(d *draft) error { return d.removePlan(r.PathValue("name")) }, nil
		},
		"DELETE /rules/{name}": func(r *http.Request) (any, change, error) {
			return nil, func(d *draft) error { return d.remove(r.PathValue("name")) }, nil
		},
	} {
		a.mux.HandleFunc(pattern, a.change(read))
	}
	// This changes counts and no rules, so nothing has to be saved, and no lock is needed.
	a.mux.HandleFunc("DELETE /keys/{key...}", func(w http.ResponseWriter, r *http.Request) {
		if err := cfg.Admitter.Remove(r.Context(), r.PathValue("key")); err != nil {
			a.fail(w, r, &serverError{err})
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
	return a, nil
}

type admin struct {
	cfg   AdminConfig
	token [sha256.Size]byte
	mux   *http.ServeMux
}

// ServeHTTP answers requests that show the token. It compares digests, in constant time.
func (a *admin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	shown := sha256.Sum256([]byte(token))
	if !strings.EqualFold(scheme, "Bearer") || subtle.ConstantTimeCompare(shown[:], a.token[:]) != 1 {
		a.cfg.Log.WarnContext(r.Context(), "administration without the token", slog.String("peer", r.RemoteAddr))
		w.Header().Set("WWW-Authenticate", `Bearer realm="admission"`)
		problem{Title: "The token is missing or wrong", Status: http.StatusUnauthorized}.write(w)
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxAdminBody)
	a.mux.ServeHTTP(w, r)
}

type ruleList struct {
	Rules   []Rule   `json:"rules"`
	Exclude []string `json:"exclude"`
}

// change makes one change of an administrator in a draft. It may be called more than once.
type change func(*draft) error

// change returns a handler that calls read for the change and the body of the response. A change that is refused or
// cannot be saved was never in force.
func (a *admin) change(read func(*http.Request) (any, change, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		value, do, err := read(r)
		if err == nil {
			err = a.cfg.Admitter.cfg.Rules.change(do, a.keep)
		}
		if err != nil {
			a.fail(w, r, err)
			return
		}
		a.cfg.Log.InfoContext(r.Context(), "admission rules changed", slog.String("method", r.Method), slog.String("path", r.URL.Path))
		if value == nil {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		answer(w, value)
	}
}

func (a *admin) keep(t *ruleTable) error {
	if a.cfg.File != "" {
		if err := save(a.cfg.File, t); err != nil {
			return &serverError{err}
		}
	}
	return nil
}

// serverError is the error of a change that is valid and could not be made.
type serverError struct{ error }

func putPlan(r *http.Request) (any, change, error) {
	fields := map[string]any{}
	if err := readJSON(r.Body, &fields); err != nil {
		return nil, nil, err
	}
	name := r.PathValue("name")
	if given := fields["name"]; given != nil && given != name {
		return nil, nil, otherName(given, name)
	}
	if fields == nil { // the body was null
		fields = map[string]any{}
	}
	fields["name"] = name
	p, err := planOf(fields)
	return p, func(d *draft) error { return d.putPlan(p) }, err
}

func putRule(r *http.Request) (any, change, error) {
	var rule Rule
	if err := readJSON(r.Body, &rule); err != nil {
		return nil, nil, err
	}
	name := r.PathValue("name")
	if rule.Name != "" && rule.Name != name {
		return nil, nil, otherName(rule.Name, name)
	}
	rule.Name = name
	return rule, func(d *draft) error { return d.put(rule, r.URL.Query().Get("before")) }, nil
}

func otherName(body any, path string) error {
	return fmt.Errorf("name is %q: leave it out, the path says %q", body, path)
}

// putRules reads a change of several rules at once, or of their order.
func putRules(r *http.Request) (any, change, error) {
	var list ruleList
	err := readJSON(r.Body, &list)
	if err == nil && list.Rules == nil {
		err = errNoRules
	}
	return list, func(d *draft) error { d.rules, d.exclude = list.Rules, list.Exclude; return nil }, err
}

// fail answers with what is wrong, which is mostly the request. Errors of the file system and of the store are the
// server's, and say more about it than the client has to know: they are logged instead.
func (a *admin) fail(w http.ResponseWriter, r *http.Request, err error) {
	p := problem{Title: "The change cannot be made", Status: http.StatusBadRequest, Detail: err.Error()}
	var tooLarge *http.MaxBytesError
	var server *serverError
	var conflict *conflictError
	switch {
	case errors.As(err, &tooLarge):
		p.Status = http.StatusRequestEntityTooLarge
	case errors.As(err, &conflict):
		p.Status = http.StatusConflict
	case errors.Is(err, ErrUnknownPlan), errors.Is(err, ErrUnknownRule):
		p.Status = http.StatusNotFound
	case errors.As(err, &server):
		a.cfg.Log.ErrorContext(r.Context(), "a change of admission rules cannot be kept", slog.Any("error", err))
		p.Status, p.Detail = http.StatusInternalServerError, "It could not be kept and is not in force. The log says why."
	}
	p.write(w)
}

func answer(w http.ResponseWriter, value any) {
	body, err := json.Marshal(value)
	if err != nil { // plans and rules are text and numbers, which can always be encoded
		problem{Title: "The answer cannot be written", Status: http.StatusInternalServerError}.write(w)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(body, '\n')) // an error means that the client is gone
}
