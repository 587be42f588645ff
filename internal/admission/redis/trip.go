package redis

import (
	"context"
	"crypto/sha1" // Redis names scripts by it; no secret depends on it
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

// errBusy is returned if there was no free place to send a command in time.
var errBusy = fmt.Errorf("too many questions are under way: %w: %w", admission.ErrNotCharged, admission.ErrNoVerdict)

const (
	// gates is into how many parts a cluster is divided. Nodes have ranges of slots, so that most sixteenths are of one
	// node, and sixteen breakers are few enough to open quickly.
	gates = 16

	// slots is the number of a cluster's slots, by the protocol.
	slots = 1 << 14

	// inFlight is how many commands may be in flight at the first gate, which is the only one without a cluster, and
	// inFlightEach how many at each of the others. The client queues 1024 on a connection and then blocks beyond any
	// deadline, so all of them together are fewer. A server decides about 100 in a millisecond.
	inFlight     = 256
	inFlightEach = 48

	// hearing is how long after a reply the server is assumed to answer. Connections rarely vanish within a second of
	// use.
	hearing = time.Second

	// silent stands for no instant; it is before all instants.
	silent int64 = math.MinInt64
)

type gate struct {
	places chan struct{}
	heard  atomic.Int64 // the instant of the last reply, or silent
}

// gateOf returns the gate of a stored key: in a cluster that of its slot, otherwise the first.
func (r *Repository) gateOf(key string) *gate { return &r.gates[r.gateIndex(key)] }

func (r *Repository) gateIndex(key string) int {
	c := r.link.client.Load()
	if c == nil || !c.cluster {
		return 0
	}
	cmd := c.B().Exists().Key(key).Build()
	return int(cmd.Slot() % slots / (slots / gates))
}

// exchange sends q and returns the answer within the deadline, which begins when there is a connection.
func (r *Repository) exchange(parent context.Context, q question) (a answer, err error) {
	c, err := r.link.connected(parent)
	ctx, cancel := context.WithTimeout(parent, r.cfg.Deadline)
	defer cancel()
	if err == nil {
		if a, err = r.run(ctx, c, r.gateOf(q.keys[0]), q); err == nil {
			return a, nil
		}
	}
	var timeout net.Error // of a connection whose deadline was that of the context
	if errors.As(err, &timeout) && timeout.Timeout() && !errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("%w: %w", context.DeadlineExceeded, err)
	}
	ended := parent.Err()
	if at, ok := parent.Deadline(); ok && ended == nil && !clock.System().Now().Before(at) {
		ended = context.DeadlineExceeded // its timer is about to fire
	}
	switch {
	case r.link.life.Over():
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

// lost reports whether err leaves open whether the command was executed: it says neither that it was not sent nor what
// the server replied.
func lost(err error) bool {
	if answered := new(rueidis.RedisError); errors.As(err, &answered) {
		return false
	}
	op, ok := errors.AsType[*net.OpError](err)
	return (!ok || op.Op != "dial") && !errors.Is(err, admission.ErrNotCharged)
}

// ForeignKeyError is returned if a key that should hold a count holds something else. Until the key is deleted, nothing
// that is counted by it can be decided.
type ForeignKeyError struct {
	Key string // the first such key of the command
	err error
}

func (e *ForeignKeyError) Error() string {
	return fmt.Sprintf("the key %s is another's, by its type: delete it: %v", e.Key, e.err)
}

func (e *ForeignKeyError) Unwrap() []error { return []error{e.err, admission.ErrNoVerdict} }

// foreign finds out which key of a question holds something else, if the server's reply said so. The script reads the
// keys in their order, so that the reply is about the first such key.
func (r *Repository) foreign(ctx context.Context, c *client, g *gate, q question, err error) error {
	var answered *rueidis.RedisError
	if !errors.As(err, &answered) || !strings.Contains(answered.Error(), "WRONGTYPE") { // where the word stands depends on the server's version
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

// run runs the script. If the server does not know the script, run sends it along at once: nothing was done yet. In a
// cluster that goes to the same node, which has the key.
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

// do sends one command when there is a place for it, and waits until ctx ends. The client obeys ctx on a connection
// that exists, but not always while it connects to a server that is silent, or asks a cluster for its slots. So unless
// the server has replied just before, another goroutine waits for the client, and holds the place for as long. Doing so
// always would cost each decision two switches of goroutines, half a trip.
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

// finish releases the place after it has noted whether the server replied, so that whoever gets the place knows.
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
