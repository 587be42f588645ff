package redis

import (
	"context"
	"crypto/sha1" // by which Redis names scripts; nothing is kept secret by it
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/redis/rueidis"

	"github.com/treadlight/crawl/internal/admission"
	"github.com/treadlight/crawl/internal/ratelimit/breaker"
)

// exchange asks q through the breaker of its slot.
func (r *Repository) exchange(ctx context.Context, q question) (answer, error) {
	g := r.gateOf(q.keys[0])
	ticket, ok := g.allow(r.instant())
	if !ok {
		r.stats.refused.Add(1)
		return answer{}, ErrOpen
	}
	if ticket.Probe() {
		r.probe(g, ticket, q)
		r.stats.refused.Add(1)
		return answer{}, ErrOpen
	}
	return r.attempt(ctx, g, ticket, q)
}

// probe asks in the background whether there is an answer, for no tokens: the caller does
// not wait for a server of which nobody knows whether it is there.
func (r *Repository) probe(g *gate, ticket breaker.Ticket, q question) {
	q = ask(r.now(), q.key, slices.Clone(q.plans), 0, 0) // the plans are the caller's
	begun := r.link.begin(func(ctx context.Context) {
		r.stats.probes.Add(1)
		_, _ = r.attempt(ctx, g, ticket, q)
	})
	if !begun {
		g.drop(ticket)
	}
}

// attempt asks q within the deadline, which begins when there is a connection, and tells the
// breaker how that went.
func (r *Repository) attempt(parent context.Context, g *gate, ticket breaker.Ticket, q question) (a answer, err error) {
	c, err := r.link.connected(parent, ticket.Probe())
	ctx, cancel := context.WithTimeout(parent, r.cfg.Deadline)
	defer cancel()
	sent := r.instant()
	if err == nil {
		a, err = r.run(ctx, c, g, q)
	}
	err = late(err)
	now := r.instant()
	ended := parent.Err()
	if ended == nil && errors.Is(err, context.DeadlineExceeded) && sameDeadline(parent, ctx) {
		ended = context.DeadlineExceeded // its timer is about to fire
	}
	switch {
	case err == nil:
		g.record(now, ticket, false)
		return a, nil
	case r.link.closed.Load():
		g.drop(ticket)
		return answer{}, admission.ErrClosed
	case errors.Is(err, ErrOpen):
		g.drop(ticket)
		r.stats.refused.Add(1)
		return answer{}, ErrOpen
	case noVerdict(err, ended, now.Sub(sent) < r.cfg.Deadline/4),
		errors.Is(err, context.DeadlineExceeded) && !ticket.Probe() && !g.lateFor(sent, now):
		g.drop(ticket)
	default:
		r.stats.failures.Add(1)
		if g.record(now, ticket, true) {
			r.link.drop()
		}
	}
	if ended != nil {
		return answer{}, fmt.Errorf("redis: %w", ended)
	}
	if lost(err) {
		err = fmt.Errorf("%w: %w", admission.ErrUndecided, err)
	}
	return answer{}, fmt.Errorf("redis: within %v: %w", r.cfg.Deadline, err)
}

// lost reports whether an error says neither that the question was not sent nor what the
// server answered.
func lost(err error) bool {
	if answered := new(rueidis.RedisError); errors.As(err, &answered) {
		return false
	}
	op, ok := errors.AsType[*net.OpError](err)
	dialling := ok && op.Op == "dial"
	return !dialling && !errors.Is(err, admission.ErrNotCharged)
}

// late is err as a context.DeadlineExceeded, if it is that of a connection whose deadline
// was the context's.
func late(err error) error {
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() && !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%w: %w", context.DeadlineExceeded, err)
	}
	return err
}

// sameDeadline reports whether ctx, made from parent, has the deadline of that.
func sameDeadline(parent, ctx context.Context) bool {
	its, ok := parent.Deadline()
	own, _ := ctx.Deadline()
	return ok && its.Equal(own)
}

// errBusy is for a question for which there was no place in time.
var errBusy = errors.New("too many questions are under way")

// noVerdict reports whether an error says nothing about the server: the caller has ended
// it, early; too many others were asking; or one key is that of something else.
func noVerdict(err, ended error, early bool) bool {
	switch {
	case errors.Is(err, errBusy), errors.Is(ended, context.Canceled), ended != nil && early:
		return true
	}
	_, foreign := errors.AsType[*ForeignKeyError](err)
	return foreign
}

// ForeignKeyError is that a key by which something is counted is that of something else. Until
// it is deleted nothing that is counted by it is decided.
type ForeignKeyError struct {
	Key string // one of those of the question
	err error
}

// Error names the key.
func (e *ForeignKeyError) Error() string {
	return fmt.Sprintf("the key %s is another's, by its type: delete it: %v", e.Key, e.err)
}

// Unwrap is what the server said.
func (e *ForeignKeyError) Unwrap() error { return e.err }

// foreign finds out which key of a question is another's, if that is what a server has said.
// The script reads them in their order, and so says it of the first.
func (r *Repository) foreign(ctx context.Context, c *client, g *gate, q question, err error) error {
	var answered *rueidis.RedisError
	if !errors.As(err, &answered) || !strings.Contains(answered.Error(), "WRONGTYPE") { // where, depends on the version
		return err
	}
	for _, key := range q.keys {
		kind, asked := r.do(ctx, c, g, c.B().Type().Key(key).Build()).ToString()
		if asked == nil && kind != "hash" && kind != "none" {
			return &ForeignKeyError{key, err}
		}
	}
	return &ForeignKeyError{q.keys[0], err}
}

// scriptName is what the servers call the script.
func scriptName() string {
	sum := sha1.Sum([]byte(script))
	return hex.EncodeToString(sum[:])
}

// run asks the script, and if the server does not know it, sends it along at once: it has
// done nothing yet. That goes the same way through a cluster, to the node that asked.
func (r *Repository) run(ctx context.Context, c *client, g *gate, q question) (answer, error) {
	reply, err := r.do(ctx, c, g, c.B().Evalsha().Sha1(r.name).Numkeys(int64(len(q.keys))).Key(q.keys...).Arg(q.arg).Build()).ToString()
	if answered, ok := rueidis.IsRedisErr(err); ok && answered.IsNoScript() {
		r.stats.reloads.Add(1)
		reply, err = r.do(ctx, c, g, c.B().Eval().Script(script).Numkeys(int64(len(q.keys))).Key(q.keys...).Arg(q.arg).Build()).ToString()
	}
	if err != nil {
		return answer{}, r.foreign(ctx, c, g, q, err)
	}
	return decode(reply, q.plans)
}

// do sends one command when there is a place for it, and waits until ctx ends. The client
// keeps to ctx on a connection that is there, but not always while it makes one to a
// server that is silent, or asks a cluster where slots are. So unless the server has just
// been heard another goroutine waits for the client, and keeps the place as long. To
// do so always would cost each decision two changes of goroutines, half a trip.
func (r *Repository) do(ctx context.Context, c *client, g *gate, cmd rueidis.Completed) rueidis.RedisResult {
	if err := r.enter(ctx, g); err != nil {
		return rueidis.NewErrorResult(err)
	}
	r.stats.trips.Add(1)
	if g.hears(r.instant()) {
		return r.finish(g, c.Do(ctx, cmd))
	}
	done := make(chan rueidis.RedisResult, 1)
	if !r.link.begin(func(context.Context) { done <- r.finish(g, c.Do(ctx, cmd)) }) {
		<-g.places
		return rueidis.NewErrorResult(admission.ErrClosed)
	}
	select {
	case res := <-done:
		return res
	case <-ctx.Done():
		return rueidis.NewErrorResult(ctx.Err())
	}
}

// finish gives the place back, after it is known whether the server was heard: who gets
// the place should know.
func (r *Repository) finish(g *gate, res rueidis.RedisResult) rueidis.RedisResult {
	heard := silent
	if res.NonRedisError() == nil {
		heard = int64(r.instant())
	}
	g.heard.Store(heard)
	<-g.places
	return res
}

// enter takes a place at the gate. Whoever had to wait for it looks again whether those
// before it have found the server down.
func (r *Repository) enter(ctx context.Context, g *gate) error {
	select {
	case g.places <- struct{}{}:
		return nil
	default:
	}
	select {
	case g.places <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", errBusy, ctx.Err())
	}
	if g.state(r.instant()) == breaker.Open {
		<-g.places
		return ErrOpen
	}
	return nil
}

// remove deletes what is stored of key under plans, which is in one slot.
func (r *Repository) remove(ctx context.Context, key string, plans []admission.Plan) error {
	c, err := r.link.connected(ctx, true)
	if err != nil {
		return fmt.Errorf("redis: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, r.cfg.Deadline)
	defer cancel()
	keys := make([]string, len(plans))
	for i := range plans {
		keys[i] = storeKey(plans[i].Name, key)
	}
	if err := r.do(ctx, c, r.gateOf(keys[0]), c.B().Del().Key(keys...).Build()).Error(); err != nil {
		return fmt.Errorf("redis: remove: %w", err)
	}
	return nil
}
