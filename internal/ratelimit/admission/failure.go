package admission

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// answered notes that the store is there, and keeps the fallback warm. That the fallback
// may deny is no matter.
func (a *Admitter) answered(ctx context.Context, req *Request, res *Result) {
	if a.down.Load() && a.down.Swap(false) {
		a.cfg.Log.InfoContext(ctx, "admission store answers again")
	}
	if a.cfg.Fallback != nil && res.Allowed && req.Tokens > 0 {
		_, _ = a.fallBack(ctx, req)
	}
}

// unanswered decides without the store.
func (a *Admitter) unanswered(ctx context.Context, req *Request, err error) Result {
	a.failures.Add(1)
	if !a.down.Swap(true) {
		a.cfg.Log.WarnContext(ctx, "admission store does not answer", "error", err)
	}
	if a.cfg.Fallback != nil {
		if res, err := a.fallBack(ctx, req); err == nil {
			a.fallbacks.Add(1)
			return res
		}
	}
	return a.fail(&req.whole[0], req.OnError)
}

// fallBack asks the fallback for this process's share. Who asks for more at once than
// the share can hold is charged all of it: the store would have let him in.
func (a *Admitter) fallBack(ctx context.Context, req *Request) (Result, error) {
	plans, err := a.combos.of(req.set, req.Plans)
	if err != nil { // they were found before
		return Result{}, err
	}
	tokens := req.Tokens
	for i, p := range plans.whole {
		if tokens <= p.Capacity {
			tokens = min(tokens, plans.shares[i].Capacity)
		}
	}
	res, err := a.cfg.Fallback.Take(ctx, foldKey(req.Key), plans.shares, tokens)
	if res.Allowed {
		res.Reason = ReasonFallback
	}
	return res, err
}

// fail is the decision when nothing answers. Open, it tells no remaining tokens: nobody
// knows of any.
func (a *Admitter) fail(p *Plan, how OnError) Result {
	if how == "" {
		how = a.cfg.OnError
	}
	res := Result{Limit: p.Capacity, Plan: p.Name}
	if how == FailClosed {
		a.closed.Add(1)
		res.Reason, res.Wait = ReasonFailClosed, failClosedWait
		return res
	}
	a.opened.Add(1)
	res.Allowed, res.Reason = true, ReasonFailOpen
	return res
}

const (
	// maxKey is what of a key is kept as it is. Keys come from headers, which may be
	// a megabyte long; times the number of keys that is a store's memory.
	maxKey = 256

	// foldedPrefix marks the digest of a key.
	foldedPrefix = "sha256:"
)

// foldKey is the key as stores keep it: itself, or its digest if it is long. One that
// looks like a digest is digested too, so that no two keys become one.
func foldKey(key string) string {
	if len(key) <= maxKey && !strings.HasPrefix(key, foldedPrefix) {
		return key
	}
	sum := sha256.Sum256([]byte(key))
	return foldedPrefix + hex.EncodeToString(sum[:])
}
