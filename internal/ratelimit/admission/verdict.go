package admission

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit/classic"
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
func (d *door) judge(r *http.Request, rule *compiledRule, set *planSet) (v verdict, err error) {
	begun := time.Time{}
	if rule.Wait > 0 {
		begun = d.clk.Now()
	}
	if v.key, err = rule.key(r); err != nil {
		return d.nobody(r, rule, err), nil
	}
	if rule.slots != nil {
		if err = d.take(r.Context(), rule, begun, &v); err != nil {
			return v, err
		}
		if !v.res.Allowed {
			d.count(rule, &v)
			return v, nil
		}
		// Deferred, because key functions, costs and stores are other people's, and a place
		// that is lost to a panic is lost for good.
		defer func() {
			if !v.res.Allowed || err != nil { // or the key function or the store panics
				v.release()
				v.release = nil
			}
		}()
		v.res = Result{}
	}
	v.res, err = d.charge(r, rule, set, begun, v.key)
	return v, err
}

// nobody is the verdict when the key cannot be told. It is logged once for each rule: its
// cause is mostly the same one.
func (d *door) nobody(r *http.Request, rule *compiledRule, err error) verdict {
	if !rule.failed.Swap(true) {
		d.cfg.Log.ErrorContext(r.Context(), "the key of a rule cannot be told", slog.String("rule", rule.Name), slog.Any("error", err))
	}
	v := verdict{res: d.cfg.Admitter.fail(&Plan{}, rule.OnError)}
	d.count(rule, &v)
	return v
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
	case errors.Is(err, classic.ErrLimited):
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
func (d *door) charge(r *http.Request, rule *compiledRule, set *planSet, begun time.Time, key string) (Result, error) {
	ctx := r.Context()
	req := Request{Key: key, Plans: rule.Plans, Tokens: rule.tokens(r), Rule: rule.Name, OnError: rule.OnError, set: set}
	if rule.line == nil || d.shadows(rule) {
		return d.cfg.Admitter.Decide(ctx, req)
	}
	key = foldKey(key)
	if line, ok := rule.line.Statistics(key); !ok || line.InUse == 0 {
		res, err := d.cfg.Admitter.Decide(ctx, req)
		if err != nil || d.settled(rule, begun, &res) {
			return res, err
		}
	}
	leave, err := rule.line.AcquireRelease(ctx, key, 1, d.patience(rule, begun))
	if errors.Is(err, classic.ErrLimited) {
		return d.stillInLine(ctx, req)
	} else if err != nil {
		return Result{}, err
	}
	defer leave()
	for {
		res, err := d.cfg.Admitter.Decide(ctx, req)
		if err != nil || d.settled(rule, begun, &res) {
			return res, err
		}
		if err := clock.Sleep(ctx, d.clk, res.Wait); err != nil {
			return Result{}, err
		}
	}
}

// settled reports whether waiting would not change a result in time.
func (d *door) settled(rule *compiledRule, begun time.Time, res *Result) bool {
	return res.Allowed || res.Wait <= 0 || res.Wait > d.patience(rule, begun)
}

// stillInLine is the denial of a request whose turn to ask has not come. It looks at the
// plans, past those before it, but takes nothing.
func (d *door) stillInLine(ctx context.Context, req Request) (Result, error) {
	req.Tokens = 0
	res, err := d.cfg.Admitter.Decide(ctx, req)
	if err != nil || res.Reason == ReasonFailOpen || res.Reason == ReasonFailClosed {
		return res, err
	}
	wait := res.untilMore(req.set)
	res.Allowed, res.Reason, res.Wait = false, ReasonLimited, max(busyWait, wait)
	return res, nil
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
