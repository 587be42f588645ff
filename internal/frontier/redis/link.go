package redis

import (
	"context"
	"crypto/sha1" // the hash by which Redis names scripts; security does not depend on it
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/frontier"
)

const (
	// retryFirst and retryMost are the first and the longest pause before a command is sent again.
	retryFirst, retryMost = 20 * time.Millisecond, 2 * time.Second
	// chunk bounds the commands of a pipeline, so that it completes within its timeout.
	chunk = 256
)

// link sends scripts and receives their replies.
type link struct {
	rueidis.Client
	clk    clock.Clock
	giveUp time.Duration

	commands, retries, reloads atomic.Int64
}

type call struct {
	script *script
	keys   []string
	args   []string
	reply  []message
	err    error // a server's error that would not change if the call were repeated
	done   bool
	text   bool // the server does not know the script, so its text must be sent
}

// run runs scripts in pipelines, and repeats those without a reply until ctx ends or giveUp has passed. It returns the
// error of a call without a reply; final errors are in the calls.
func (l *link) run(ctx context.Context, calls []*call) error {
	begun, pause := l.clk.Now(), retryFirst
	for {
		err := l.try(ctx, calls)
		switch {
		case err == nil:
			return nil
		case errors.Is(ctx.Err(), context.DeadlineExceeded):
			return fmt.Errorf("redis: %w: %w", ctx.Err(), explain(err, false))
		case ctx.Err() != nil:
			return ctx.Err()
		case l.clk.Since(begun) >= l.giveUp:
			return fmt.Errorf("redis: not answered within %v: %w: see that the server is there, and begin again by the same command: the job goes on", l.giveUp, err)
		}
		calls = slices.DeleteFunc(slices.Clone(calls), func(c *call) bool { return c.done })
		l.retries.Add(int64(len(calls)))
		if err := clock.Sleep(ctx, l.clk, pause); err != nil {
			return err
		}
		pause = min(2*pause, retryMost)
	}
}

// try sends calls once, and then those again, with their text, whose script the server does not know. An error means
// that some calls are to be sent again.
func (l *link) try(parent context.Context, calls []*call) (failed error) {
	var unknown []*call
	for part := range slices.Chunk(calls, chunk) {
		ctx, cancel := context.WithTimeout(parent, tripTimeout)
		results := l.DoMulti(ctx, l.commandsOf(part)...)
		cancel()
		for i, res := range results {
			if err := l.take(part[i], res); err != nil {
				failed = err
			} else if !part[i].done {
				unknown = append(unknown, part[i])
			}
		}
	}
	if len(unknown) == 0 {
		return failed
	}
	l.reloads.Add(int64(len(unknown)))
	if err := l.try(parent, unknown); err != nil {
		failed = err
	}
	return failed
}

func (l *link) commandsOf(calls []*call) rueidis.Commands {
	list := make(rueidis.Commands, len(calls))
	for i, c := range calls {
		text, sha := c.script.text()
		if c.text {
			list[i] = l.B().Eval().Script(text).Numkeys(int64(len(c.keys))).Key(c.keys...).Arg(c.args...).Build()
		} else {
			list[i] = l.B().Evalsha().Sha1(sha).Numkeys(int64(len(c.keys))).Key(c.keys...).Arg(c.args...).Build()
		}
	}
	l.commands.Add(int64(len(calls)))
	return list
}

// take stores a result in its call. An error means that the call is to be sent again.
func (l *link) take(c *call, res rueidis.RedisResult) error {
	reply, err := res.ToArray()
	answered, ok := rueidis.IsRedisErr(err)
	switch {
	case err == nil && len(reply) < c.script.parts, rueidis.IsParseErr(err):
		c.err = fmt.Errorf("redis: %s: the reply cannot be read", c.script.name)
	case err == nil:
		c.reply, c.done, c.text = reply, true, false
		return nil
	case ok && answered.IsNoScript():
		c.text = true
		return nil
	case !ok:
		return err
	case strings.HasPrefix(answered.Error(), "NOJOB"):
		c.err = fmt.Errorf("redis: %w", ErrNoJob)
	case strings.HasPrefix(answered.Error(), "OOM"):
		c.err = errMemory
	// A client that was not configured for a cluster would send the call to the wrong node again and again.
	case !passing(answered.Error()), strings.HasPrefix(answered.Error(), "MOVED") && l.Mode() != rueidis.ClientModeCluster:
		c.err = fmt.Errorf("redis: %s: %w", c.script.name, said(errors.New(answered.Error())))
	default:
		return err
	}
	c.done = true
	return nil
}

// passing reports whether a server's error is about its current state, and so may pass.
func passing(text string) bool {
	return slices.ContainsFunc([]string{
		"LOADING", "CLUSTERDOWN", "TRYAGAIN", "MASTERDOWN", "READONLY", "BUSY", "MISCONF", "NOREPLICAS", "MOVED", "ASK", "UNBLOCKED",
	}, func(kind string) bool { return strings.HasPrefix(text, kind) })
}

// heals reports whether an error may pass when a replica takes the place of a node.
func heals(err error) bool {
	if answered, ok := errors.AsType[*rueidis.RedisError](err); ok {
		return passing(answered.Error())
	}
	_, broken := errors.AsType[net.Error](err)
	return broken || errors.Is(err, io.EOF) || errors.Is(err, rueidis.ErrNoSlot)
}

var (
	// ErrNoJob is the error of package frontier.
	ErrNoJob = frontier.ErrNoJob
	// errMemory means that the server is out of memory.
	errMemory = errors.New("the server has no memory left: raise its maxmemory")
)

func (l *link) one(ctx context.Context, c *call) ([]message, error) {
	if err := l.run(ctx, []*call{c}); err != nil {
		return nil, err
	}
	return c.reply, c.err
}

// once runs a script without repeating it.
func (l *link) once(ctx context.Context, c *call) ([]message, error) {
	if err := l.try(ctx, []*call{c}); err != nil {
		return nil, fmt.Errorf("redis: %w", err)
	}
	return c.reply, c.err
}

type message = rueidis.RedisMessage

// text, number and list read parts of replies of our own scripts. A part of another type gives the zero value.
func text(m message) string {
	s, _ := m.ToString() // empty if it is none
	return s
}

func number(m message) int64 {
	n, err := m.ToInt64()
	if err != nil {
		n, _ = m.AsInt64() // zero if it is none
	}
	return n
}

// pairs reads a reply that lists the fields of a hash and their values.
func pairs(reply []message) map[string]string {
	fields := make(map[string]string, len(reply)/2)
	for pair := range slices.Chunk(reply, 2) {
		fields[text(pair[0])] = text(pair[len(pair)-1])
	}
	return fields
}

func list(m message) []message {
	a, _ := m.ToArray() // empty if it is none
	return a
}

//go:embed lua
var lua embed.FS

// script is a script that servers run, and the hash by which they call it; both are made at the first use.
type script struct {
	name  string
	parts int // the least number of parts of a reply
	text  func() (text, sha string)
}

// The scripts of a partition, then those of a job. Light ones need little memory and may run on a server that is out of
// memory; others may not.
var (
	scriptAdd     = newScript("add", 5, heavy, "head", "common")
	scriptAcquire = newScript("acquire", 4, light, "head", "common")
	scriptLoad    = newScript("load", 2, light, "head", "common")
	scriptDone    = newScript("done", 3, light, "head", "common")
	scriptRelease = newScript("release", 2, light, "head", "common")
	scriptRenew   = newScript("renew", 3, light, "head", "common")
	scriptLook    = newScript("look", 3, light, "head", "common")

	scriptJob   = newScript("job", 0, heavy, "head")
	scriptHello = newScript("hello", 4, light, "head")
	scriptSeeds = newScript("seeds", 0, heavy)
	scriptDraw  = newScript("draw", 2, light, "head")
	scriptSlots = newScript("slots", 1, light, "head")
	scriptSet   = newScript("set", 0, light, "head")
	scriptNote  = newScript("note", 0, light, "head")
	scriptTell  = newScript("tell", 5, light, "head")
)

const (
	heavy = "#!lua\n"
	light = "#!lua flags=allow-oom\n"
)

// newScript returns the script in a file, which continues other files.
func newScript(name string, parts int, text string, before ...string) *script {
	return &script{name, parts, sync.OnceValues(func() (string, string) {
		for _, file := range append(before, name) {
			part, err := lua.ReadFile("lua/" + file + ".lua")
			if err != nil {
				panic("redis: " + err.Error()) // this cannot happen: the file is embedded
			}
			text += string(part)
		}
		sum := sha1.Sum([]byte(text))
		return text, hex.EncodeToString(sum[:])
	})}
}
