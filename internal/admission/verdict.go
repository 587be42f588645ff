package admission

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/limit"
)

// busyWait is what a client is told to wait whose turn depends on when others end, which
// nobody knows. A second is what a shorter wait is rounded up to.
const busyWait = time.Second

// verdict is what a rule says about a request.
type verdict struct {
	key     string
	res     Result
	release func() // gives its place back; nil if it has none
}

// judge finds out who is counted, takes a place, and charges the plans. The place comes
// first: a request that is denied for want of one has cost nothing, and a place that was
// not needed is given back. Its error is that of the request's context.
func (d *door) judge(r *http.Request, rule *compiledRule, t *terms, v *verdict) (err error) {
	begun := time.Time{}
	if rule.Wait > 0 {
		begun = d.clk.Now()
	}
	if v.key, err = rule.key(r); err != nil {
		d.nobody(r, rule, err, v)
		return nil
	}
	if rule.slots == nil {
		return d.charge(r, rule, t, begun, v)
	}
	if err = d.take(r.Context(), rule, begun, v); err != nil {
		return err
	}
	if !v.res.Allowed {
		d.count(rule, v)
		return nil
	}
	return d.chargeInside(r, rule, t, begun, v)
}

// chargeInside is charge for a request that has its place already. That it is given back
// is deferred, because costs, stores and hooks are other people's, and a place that is
// lost to a panic is lost for good.
func (d *door) chargeInside(r *http.Request, rule *compiledRule, t *terms, begun time.Time, v *verdict) error {
	kept := false // also if one of them panics after it was allowed
	defer func() {
		if !kept {
			v.release()
			v.release = nil
		}
	}()
	err := d.charge(r, rule, t, begun, v)
	kept = err == nil && v.res.Allowed
	if kept && len(t.plans) == 0 {
		v.res = Result{Allowed: true, Limit: rule.Concurrency, Plan: rule.Name + slotsSuffix}
		if places, ok := rule.slots.Statistics(foldKey(v.key)); ok {
			v.res.Remaining = places.Available
		}
	}
	return err
}

// nobody is the verdict when the key cannot be told. It is logged once for each rule: its
// cause is mostly the same one.
func (d *door) nobody(r *http.Request, rule *compiledRule, err error, v *verdict) {
	if !rule.failed.Swap(true) {
		d.cfg.Log.ErrorContext(r.Context(), "the key of a rule cannot be told", slog.String("rule", rule.Name), slog.Any("error", err))
	}
	v.key, v.res = "", d.cfg.Admitter.fail(&Plan{}, rule.OnError)
	d.count(rule, v)
}

// count has the Admitter count a decision that it was not asked for.
func (d *door) count(rule *compiledRule, v *verdict) {
	d.cfg.Admitter.tell(&Request{Key: v.key, Plans: rule.Plans, Rule: rule.Name}, &v.res, nil)
}

// patience is how much of the rule's Wait is left to a request that came at begun.
func (d *door) patience(rule *compiledRule, begun time.Time) time.Duration {
	if rule.Wait == 0 || d.shadows(rule) {
		return 0
	}
	return max(0, rule.Wait-d.clk.Since(begun))
}

// take takes a place among the rule's Concurrency. Its error is that of ctx.
func (d *door) take(ctx context.Context, rule *compiledRule, begun time.Time, v *verdict) error {
	release, err := rule.slots.AcquireRelease(ctx, foldKey(v.key), 1, d.patience(rule, begun))
	switch {
	case err == nil:
		v.release, v.res.Allowed = release, true
	case errors.Is(err, limit.ErrLimited):
		v.res = Result{Limit: rule.Concurrency, Plan: rule.Name + slotsSuffix, Wait: busyWait, Reason: ReasonConcurrency}
	default:
		return err
	}
	return nil
}

// charge asks the plans, and goes on asking while the rule has the request wait: each
// time when the last answer said that there would be tokens. Those who have to wait do so
// in line, so that one of each key asks and the others come in turn. Who finds nobody in
// line asks at once, beside others who do: a store that is far away is asked by many.
func (d *door) charge(r *http.Request, rule *compiledRule, t *terms, begun time.Time, v *verdict) error {
	ctx := r.Context()
	req := Request{
		Key: v.key, Plans: rule.Plans, Tokens: rule.tokens(r), Rule: rule.Name, OnError: rule.OnError,
		set: t.set, whole: t.plans,
	}
	if rule.line == nil || d.shadows(rule) {
		return d.cfg.Admitter.decide(ctx, &req, &v.res)
	}
	if line, ok := rule.line.Statistics(foldKey(v.key)); !ok || line.InUse == 0 {
		err := d.cfg.Admitter.decide(ctx, &req, &v.res)
		if err != nil || d.settled(rule, begun, &v.res) {
			return err
		}
	}
	return d.chargeInLine(ctx, rule, t, begun, &req, &v.res)
}

// chargeInLine is charge for a request that has to wait.
func (d *door) chargeInLine(ctx context.Context, rule *compiledRule, t *terms, begun time.Time, req *Request, res *Result) error {
	leave, err := rule.line.AcquireRelease(ctx, foldKey(req.Key), 1, d.patience(rule, begun))
	if errors.Is(err, limit.ErrLimited) {
		return d.stillInLine(ctx, t, req, res)
	} else if err != nil {
		return err
	}
	defer leave()
	for {
		err := d.cfg.Admitter.decide(ctx, req, res)
		if err != nil || d.settled(rule, begun, res) {
			return err
		}
		if err := clock.Sleep(ctx, d.clk, res.Wait); err != nil {
			return err
		}
	}
}

// settled reports whether waiting would not change a result in time.
func (d *door) settled(rule *compiledRule, begun time.Time, res *Result) bool {
	return res.Allowed || res.Wait <= 0 || res.Wait > d.patience(rule, begun)
}

// stillInLine is the denial of a request whose turn to ask has not come. It looks at the
// plans, past those before it, but takes nothing.
func (d *door) stillInLine(ctx context.Context, t *terms, req *Request, res *Result) error {
	req.Tokens = 0
	err := d.cfg.Admitter.decide(ctx, req, res)
	if err != nil || res.unknown() {
		return err
	}
	_, wait := res.told(t.planOf(res))
	res.Allowed, res.Reason, res.Wait = false, ReasonLimited, max(busyWait, wait)
	return nil
}

// tokens is what a request costs.
func (r *compiledRule) tokens(req *http.Request) int64 {
	switch {
	case r.cost != nil:
		if n := r.cost(req); n >= 0 {
			return n
		}
	case r.Cost > 0:
		return r.Cost
	}
	return 1
}
