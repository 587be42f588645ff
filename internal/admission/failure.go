package admission

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"strings"
	"time"
)

// answered notes that the store is there, and keeps the fallback warm. That the fallback
// may deny is no matter.
func (a *Admitter) answered(ctx context.Context, s *standby, req *Request, res *Result) {
	if a.down.Load() && a.down.Swap(false) {
		a.cfg.Log.InfoContext(ctx, "admission store answers again")
	}
	if s.miss.Load() != 0 {
		s.miss.Store(0)
	}
	if a.cfg.Fallback != nil && res.Allowed && req.Tokens > 0 {
		_, _ = a.fallBack(ctx, req)
	}
}

// unanswered decides about a question that the store was asked at an instant and did not
// answer. That nothing was charged means that the store is out of reach. That nobody knows
// means it when it happens again and again; until then the request is kept out, because what
// is granted here would add to what the store may have granted in its answer.
func (a *Admitter) unanswered(ctx context.Context, s *standby, req *Request, asked time.Time, err error) (res Result) {
	a.failures.Add(1)
	if a.cfg.Fallback == nil { // each question asks anew
		if !a.down.Swap(true) {
			a.cfg.Log.WarnContext(ctx, "admission store does not answer", slog.Any("error", err))
		}
		return a.fail(&req.whole[0], req.OnError)
	}
	if undecided(err) && !s.missedBy(asked, a.cfg.Clock.Now()) {
		if a.onError(req) == FailClosed {
			return a.fail(&req.whole[0], FailClosed)
		}
		a.timeouts.Add(1)
		return Result{Limit: req.whole[0].Capacity, Plan: req.whole[0].Name, Reason: ReasonTimeout, Wait: failClosedWait}
	}
	a.leave(ctx, s, req, err)
	a.without(ctx, s, req, &res)
	return res
}

// without decides while the store is out of reach. It is not ok if it is not.
func (a *Admitter) without(ctx context.Context, s *standby, req *Request, res *Result) (ok bool) {
	if a.onError(req) != FailClosed && a.decideHere(ctx, s, req, res) {
		return true
	}
	if !s.away.Load() && a.life.Err() == nil {
		*res = Result{Limit: req.whole[0].Capacity, Plan: req.whole[0].Name, Reason: ReasonTimeout, Wait: failClosedWait}
		return false
	}
	*res = a.fail(&req.whole[0], req.OnError)
	return true
}

func (a *Admitter) onError(req *Request) OnError {
	if req.OnError == "" {
		return a.cfg.OnError
	}
	return req.OnError
}

// inTurn is fallBack in the place of the store. A plan of which this process has less than a
// token per window denies while it is not its turn, and tells its next one.
func (a *Admitter) inTurn(ctx context.Context, req *Request) (res Result, err error) {
	plans, err := a.combos.of(req.set, req.Plans)
	if err != nil { // they were found before
		return res, err
	}
	for i, cycle := range plans.cycles {
		if cycle == 1 || req.Tokens == 0 {
			continue
		}
		if wait := a.turn(&plans.shares[i], cycle, 0); wait > res.Wait {
			res = Result{Limit: 1, Plan: plans.whole[i].Name, Reason: ReasonLimited, Wait: wait, Reset: wait}
		}
	}
	if res.Wait > 0 {
		return res, nil
	}
	res, err = a.fallBack(ctx, req)
	for i, cycle := range plans.cycles {
		if cycle == 1 || plans.whole[i].Name != res.Plan || res.Remaining > 0 || res.Wait == Never {
			continue
		}
		next := a.turn(&plans.shares[i], cycle, 1)
		if res.Reset, res.next = next, next; !res.Allowed {
			res.Wait = next
		}
	}
	return res, err
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
