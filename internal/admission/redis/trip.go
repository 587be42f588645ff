package redis

import (
	"context"
	"crypto/sha1" // by which Redis names scripts; nothing is kept secret by it
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/treadlight/crawl/internal/admission"
	"github.com/treadlight/crawl/internal/clock"
)

// errBusy is for a question for which there was no place in time.
var errBusy = fmt.Errorf("too many questions are under way: %w: %w", admission.ErrNotCharged, admission.ErrNoVerdict)

const (
	// gates is how many parts there are of a cluster. Nodes have slots in long rows, so most
	// sixteenths are of one node, and sixteen are few enough to open quickly.
	gates = 16

	// slots is how many a cluster has, by the protocol.
	slots = 1 << 14

	// inFlight is how many questions are under way at a time at the first gate, which is the only one without a
	// cluster, and inFlightEach at the others. The client queues 1024 on a connection and then blocks beyond any
	// deadline, so all of them are fewer. A server decides about 100 in a millisecond.
	inFlight     = 256
	inFlightEach = 48

	// hearing is how long after a reply the server is taken to be there. Connections seldom vanish
	// within a second of use.
	hearing = time.Second

	// silent is no instant, but before all of them.
	silent int64 = math.MinInt64
)

type gate struct {
	places chan struct{}
	heard  atomic.Int64 // the instant of the last reply, or silent
}

// gateOf is the gate of a stored key: in a cluster that of its slot, and else the first.
func (r *Repository) gateOf(key string) *gate { return &r.gates[r.gateIndex(key)] }

func (r *Repository) gateIndex(key string) int {
	c := r.link.client.Load()
	if c == nil || !c.cluster {
		return 0
	}
	cmd := c.B().Exists().Key(key).Build()
	return int(cmd.Slot() % slots / (slots / gates))
}

// exchange asks q within the deadline, which begins when there is a connection.
func (r *Repository) exchange(parent context.Context, q question) (a answer, err error) {
	c, err := r.link.connected(parent)
	ctx, cancel := context.WithTimeout(parent, r.cfg.Deadline)
	defer cancel()
	if err == nil {
		if a, err = r.run(ctx, c, r.gateOf(q.keys[0]), q); err == nil {
			return a, nil
		}
	}
	var timeout net.Error // of a connection whose deadline was the context's
	if errors.As(err, &timeout) && timeout.Timeout() && !errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("%w: %w", context.DeadlineExceeded, err)
	}
	ended := parent.Err()
	if at, ok := parent.Deadline(); ok && ended == nil && !clock.System().Now().Before(at) {
		ended = context.DeadlineExceeded // its timer is about to fire
	}
	switch {
	case r.link.closed.Load():
		return answer{}, admission.ErrClosed
	case ended != nil:
		return answer{}, fmt.Errorf("redis: %w", ended)
	case lost(err):
		err = fmt.Errorf("%w: %w", admission.ErrUndecided, err)
	}
	if !errors.Is(err, admission.ErrNoVerdict) {
		r.failures.Add(1)
	}
	return answer{}, fmt.Errorf("redis: within %v: %w", r.cfg.Deadline, err)
}

// lost reports whether an error says neither that the question was not sent nor what the server answered.
func lost(err error) bool {
	if answered := new(rueidis.RedisError); errors.As(err, &answered) {
		return false
	}
	op, ok := errors.AsType[*net.OpError](err)
	return (!ok || op.Op != "dial") && !errors.Is(err, admission.ErrNotCharged)
}

// ForeignKeyError is that a key by which something is counted is that of something else. Until it is
// deleted nothing that is counted by it is decided.
type ForeignKeyError struct {
	Key string // one of those of the question
	err error
}

func (e *ForeignKeyError) Error() string {
	return fmt.Sprintf("the key %s is another's, by its type: delete it: %v", e.Key, e.err)
}

func (e *ForeignKeyError) Unwrap() []error { return []error{e.err, admission.ErrNoVerdict} }

// foreign finds out which key of a question is another's, if that is what a server has said. The script
// reads them in their order, and so says it of the first.
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

func scriptName() string {
	sum := sha1.Sum([]byte(script))
	return hex.EncodeToString(sum[:])
}

// run asks the script, and if the server does not know it, sends it along at once: it has done nothing
// yet. That goes the same way through a cluster, to the node that asked.
func (r *Repository) run(ctx context.Context, c *client, g *gate, q question) (answer, error) {
	reply, err := r.do(ctx, c, g, c.B().Evalsha().Sha1(r.name).Numkeys(int64(len(q.keys))).Key(q.keys...).Arg(q.arg).Build()).ToString()
	if answered, ok := rueidis.IsRedisErr(err); ok && answered.IsNoScript() {
		r.reloads.Add(1)
		reply, err = r.do(ctx, c, g, c.B().Eval().Script(script).Numkeys(int64(len(q.keys))).Key(q.keys...).Arg(q.arg).Build()).ToString()
	}
	if err != nil {
		return answer{}, r.foreign(ctx, c, g, q, err)
	}
	return decode(reply, q.plans)
}

// do sends one command when there is a place for it, and waits until ctx ends. The client keeps to ctx on a connection
// that is there, but not always while it makes one to a server that is silent, or asks a cluster where slots are. So
// unless the server has just been heard another goroutine waits for the client, and keeps the place as long. To do so
// always would cost each decision two changes of goroutines, half a trip.
func (r *Repository) do(ctx context.Context, c *client, g *gate, cmd rueidis.Completed) rueidis.RedisResult {
	if err := r.enter(ctx, g); err != nil {
		return rueidis.NewErrorResult(err)
	}
	r.trips.Add(1)
	if heard := g.heard.Load(); heard != silent && r.instant().Sub(clock.Instant(heard)) < hearing {
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

// finish gives the place back, after it is known whether the server was heard: who gets the place should know.
func (r *Repository) finish(g *gate, res rueidis.RedisResult) rueidis.RedisResult {
	heard := silent
	if res.NonRedisError() == nil {
		heard = int64(r.instant())
	}
	g.heard.Store(heard)
	<-g.places
	return res
}

func (r *Repository) enter(ctx context.Context, g *gate) error {
	select {
	case g.places <- struct{}{}:
		return nil
	default:
	}
	select {
	case g.places <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", errBusy, ctx.Err())
	}
}
