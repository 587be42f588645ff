package redis

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/treadlight/crawl/internal/clock"
)

// The first and the longest pause before a command is sent again.
const (
	retryFirst = 20 * time.Millisecond
	retryMost  = 2 * time.Second
)

// chunk bounds what a pipeline holds, so that it is not too long for its time.
const chunk = 256

// link sends scripts and takes their replies.
type link struct {
	rueidis.Client
	clk    clock.Clock
	giveUp time.Duration
	heard  func(error) // what became of a trip; nil: nobody is told

	trips, commands, bytes, retries, reloads atomic.Int64
}

// call is a script to be run, and what it replied.
type call struct {
	script *script
	keys   []string
	args   []string
	reply  []rueidis.RedisMessage
	err    error // of a server that will not say otherwise when it is asked again
	done   bool
	text   bool // the server does not know the script
}

// run runs scripts in one pipeline, and again those that were not answered, until all are
// or ctx ends or the time to give up has come. Its error is that of one that never was; the
// errors that a server has given for good are in the calls.
func (l *link) run(ctx context.Context, calls []*call) error {
	begun, pause := l.clk.Now(), retryFirst
	for {
		missing, err := l.try(ctx, calls)
		if len(missing) == 0 {
			return nil
		}
		if ctx.Err() != nil {
			if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return fmt.Errorf("redis: %w: %w", ctx.Err(), explain(err, false))
			}
			return ctx.Err()
		}
		if err == nil { // scripts were not known
			calls = missing
			continue
		}
		if l.clk.Since(begun) >= l.giveUp {
			return fmt.Errorf("redis: not answered within %v: %w: see that the server is there, and begin again by the same command: the job goes on", l.giveUp, err)
		}
		l.retries.Add(int64(len(missing)))
		if err := clock.Sleep(ctx, l.clk, pause); err != nil {
			return err
		}
		calls, pause = missing, min(2*pause, retryMost)
	}
}

// try sends calls once, and returns those to be sent again. Without an error those are of
// scripts that were not known.
func (l *link) try(parent context.Context, calls []*call) (missing []*call, failed error) {
	for len(calls) > 0 {
		n := min(len(calls), chunk)
		ctx, cancel := context.WithTimeout(parent, tripTimeout)
		results := l.DoMulti(ctx, l.commandsOf(calls[:n])...)
		cancel()
		l.trips.Add(1)
		for i, res := range results {
			if err := l.final(calls[i], calls[i].take(res)); err != nil {
				failed = err
			}
			if calls[i].text && !calls[i].done {
				l.reloads.Add(1)
			}
			if !calls[i].done {
				missing = append(missing, calls[i])
			}
		}
		calls = calls[n:]
	}
	if l.heard != nil {
		l.heard(failed)
	}
	return missing, failed
}

// final ends a call that was sent to the wrong node of a cluster, as the client was not told of the
// others: it will never be. Any other error, by which a call is to be sent again, it returns.
func (l *link) final(c *call, err error) error {
	answered, ok := rueidis.IsRedisErr(err)
	if !ok || !strings.HasPrefix(answered.Error(), "MOVED") || l.Mode() == rueidis.ClientModeCluster {
		return err
	}
	c.err, c.done = verdict(c.script.name, answered.Error()), true
	return nil
}

func (l *link) commandsOf(calls []*call) rueidis.Commands {
	list := make(rueidis.Commands, len(calls))
	for i, c := range calls {
		size := 0
		for _, a := range c.args {
			size += len(a)
		}
		l.commands.Add(1)
		l.bytes.Add(int64(size))
		if c.text {
			list[i] = l.B().Eval().Script(c.script.text).Numkeys(int64(len(c.keys))).Key(c.keys...).Arg(c.args...).Build()
		} else {
			list[i] = l.B().Evalsha().Sha1(c.script.sha).Numkeys(int64(len(c.keys))).Key(c.keys...).Arg(c.args...).Build()
		}
	}
	return list
}

// take takes in a result. The error is one after which the call is to be sent again.
func (c *call) take(res rueidis.RedisResult) error {
	reply, err := res.ToArray()
	answered, ok := rueidis.IsRedisErr(err)
	switch {
	case err == nil:
		c.reply, c.done, c.text = reply, true, false
		return nil
	case ok && answered.IsNoScript():
		c.text = true
		return nil
	case rueidis.IsParseErr(err):
		c.err, c.done = fmt.Errorf("redis: %s: the reply cannot be read: %w", c.script.name, err), true
		return nil
	case ok && !passing(answered.Error()):
		c.err, c.done = verdict(c.script.name, answered.Error()), true
		return nil
	}
	return err
}

// passing reports whether an error of a server is of its state, and passes with that.
func passing(text string) bool {
	for _, kind := range []string{"LOADING", "CLUSTERDOWN", "TRYAGAIN", "MASTERDOWN", "READONLY", "BUSY", "MISCONF", "NOREPLICAS", "MOVED", "ASK", "UNBLOCKED"} {
		if strings.HasPrefix(text, kind) {
			return true
		}
	}
	return false
}

// heals reports whether an error may pass when a replica has taken the place of a node.
func heals(err error) bool {
	if answered, ok := errors.AsType[*rueidis.RedisError](err); ok {
		return passing(answered.Error())
	}
	_, broken := errors.AsType[net.Error](err)
	return broken || errors.Is(err, io.EOF) || errors.Is(err, rueidis.ErrNoSlot)
}

// Errors that callers tell apart.
var (
	// ErrNoJob is that there is no such job, or none any more.
	ErrNoJob = errors.New("there is no such job: it was never begun, or was purged, or the server has lost it")
	// errMemory is that the server has no memory left.
	errMemory = errors.New("the server has no memory left: raise its maxmemory")
)

// verdict is an error of a server that is final.
func verdict(script, text string) error {
	switch {
	case strings.HasPrefix(text, "NOJOB"):
		return fmt.Errorf("redis: %w", ErrNoJob)
	case strings.HasPrefix(text, "OOM"):
		return errMemory
	}
	return fmt.Errorf("redis: %s: %w", script, said(errors.New(text)))
}

// one runs a script and returns its reply.
func (l *link) one(ctx context.Context, c *call) ([]rueidis.RedisMessage, error) {
	if err := l.run(ctx, []*call{c}); err != nil {
		return nil, err
	}
	return c.reply, c.err
}

// text, number and list are parts of replies of our own scripts; what is none of that is
// empty.
func text(m rueidis.RedisMessage) string {
	s, _ := m.ToString() // empty if it is none
	return s
}

func number(m rueidis.RedisMessage) int64 {
	n, err := m.ToInt64()
	if err != nil {
		n, _ = m.AsInt64() // zero if it is none
	}
	return n
}

func list(m rueidis.RedisMessage) []rueidis.RedisMessage {
	a, _ := m.ToArray() // empty if it is none
	return a
}
