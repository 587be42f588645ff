package redis

import (
	"context"
	_ "embed" // for the script
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
	"golang.org/x/sync/singleflight"

	"github.com/treadlight/crawl/internal/admission"
	"github.com/treadlight/crawl/internal/clock/lifetime"
)

// script makes the decision. Its own comments say what it expects and replies.
//
//go:embed take.lua
var script string

// serverTime, in place of a time, stands for the server's clock.
const serverTime admission.Micros = -1

// denied, in place of the number of tokens taken, says that there were not enough.
const denied = -1

// storeKey returns the key under which a plan is stored. The part in braces is the tag that a cluster hashes; an empty
// one would not count as a tag.
func storeKey(plan, key string) string {
	return storePrefix + plan + ":{" + escape(key) + "}"
}

const storePrefix = "rate_limiter:"

// emptyTag stands for the empty key. No other tag is a bare %.
const emptyTag = "%"

// escape escapes braces, which would end the tag. It is injective.
func escape(key string) string {
	switch {
	case key == "":
		return emptyTag
	case !strings.ContainsAny(key, "%{}"):
		return key
	}
	return strings.NewReplacer("%", "%25", "{", "%7B", "}", "%7D").Replace(key)
}

// keyOf returns the plan and the key from a name that [storeKey] made. ok is false for other names.
func keyOf(name string) (plan, key string, ok bool) {
	rest, ok := strings.CutPrefix(name, storePrefix)
	if !ok {
		return "", "", false
	}
	plan, tag, ok := strings.Cut(rest, ":{")
	if !ok || !strings.HasSuffix(tag, "}") {
		return "", "", false
	}
	if tag = strings.TrimSuffix(tag, "}"); tag == emptyTag {
		return plan, "", true
	}
	return plan, strings.NewReplacer("%25", "%", "%7B", "{", "%7D", "}").Replace(tag), true
}

// The kinds by the numbers that the script uses.
const (
	kindBucket byte = iota
	kindFixed
	kindSliding
)

type question struct {
	plans []admission.Plan
	keys  []string // the keys under which the plans are stored
	arg   string   // all other arguments, binary
}

// ask returns the question for at least least tokens and up to most. The time is the server's unless a test sets its
// own; then nothing expires while the test runs.
func ask(now admission.Micros, key string, plans []admission.Plan, least, most int64) question {
	q := question{plans: plans, keys: make([]string, len(plans))}
	b := make([]byte, 0, 24+25*len(plans))
	b = binary.BigEndian.AppendUint64(b, uint64(now))
	b = appendDouble(b, float64(least))
	b = appendDouble(b, float64(most))
	for i := range plans {
		p := &plans[i]
		q.keys[i] = storeKey(p.Name, key)
		kind, pace := kindBucket, p.TokensPerSecond
		if p.Window != 0 {
			kind, pace = kindFixed, float64(p.Window.Microseconds())
		}
		if p.Kind == admission.KindSlidingWindow {
			kind = kindSliding
		}
		ttl := p.TTL()
		if now != serverTime {
			ttl += time.Hour
		}
		b = append(b, kind)
		b = appendDouble(b, float64(p.Capacity))
		b = appendDouble(b, pace)
		b = appendDouble(b, math.Ceil(float64(ttl)/float64(time.Millisecond)))
	}
	q.arg = string(b)
	return q
}

func appendDouble(b []byte, f float64) []byte {
	return binary.BigEndian.AppendUint64(b, math.Float64bits(f))
}

// answer is the script's reply: the states as they were before, at now, and the tokens taken from them, or denied.
type answer struct {
	now    admission.Micros
	taken  int64
	states []admission.State
}

func decode(reply string, plans []admission.Plan) (answer, error) {
	in := reader{rest: reply}
	a := answer{now: admission.Micros(in.integer()), states: make([]admission.State, len(plans))}
	taken := in.double()
	a.taken = int64(taken)
	for i := range plans {
		a.states[i] = in.state(&plans[i], a.now)
	}
	if in.bad || in.rest != "" || a.now < 0 || float64(a.taken) != taken || a.taken < denied {
		return answer{}, fmt.Errorf("a reply of %d bytes about %d plans cannot be read", len(reply), len(plans))
	}
	return a, nil
}

type reader struct {
	rest string
	bad  bool // a field was missing
}

func (r *reader) bytes(n int) []byte {
	var field [8]byte
	if len(r.rest) < n {
		r.bad, r.rest = true, ""
		return field[:n]
	}
	copy(field[:], r.rest[:n])
	r.rest = r.rest[n:]
	return field[:n]
}

func (r *reader) integer() int64 { return int64(binary.BigEndian.Uint64(r.bytes(8))) }

func (r *reader) double() float64 { return math.Float64frombits(binary.BigEndian.Uint64(r.bytes(8))) }

// state returns the stored state of a plan, or a fresh one if nothing was stored.
func (r *reader) state(p *admission.Plan, now admission.Micros) admission.State {
	switch r.bytes(1)[0] {
	case 0:
		return p.Fresh(now)
	case 1:
	default:
		r.bad = true
	}
	at := admission.Micros(r.integer())
	if p.Window == 0 {
		return admission.State{At: at, Tokens: r.double()}
	}
	s := admission.State{At: at, Current: r.integer(), Previous: r.integer()}
	if s.Current < 0 || s.Previous < 0 {
		r.bad = true
	}
	return s
}

// link connects to the servers. It makes the client when that is first needed, because making it fails while they are
// down.
type link struct {
	option rueidis.ClientOption
	client atomic.Pointer[client]
	dials  singleflight.Group // all callers that need a client wait for the same one
	life   *lifetime.Lifetime // of everything that runs in the background
}

type client struct {
	rueidis.Client
	cluster bool
}

// begin runs f in the background, unless the link is closed.
func (l *link) begin(f func(ctx context.Context)) bool {
	if !l.life.Begin() {
		return false
	}
	go func() {
		defer l.life.Done()
		f(l.life.Context())
	}()
	return true
}

// dial makes the client in the background, unless that is in progress.
func (l *link) dial() <-chan singleflight.Result {
	return l.dials.DoChan("", func() (any, error) { return l.make() })
}

// connected returns the client, and makes it if there is none. If making it fails, all callers that wait get the same
// error.
func (l *link) connected(ctx context.Context) (*client, error) {
	if c := l.client.Load(); c != nil {
		return c, nil
	}
	select {
	case made := <-l.dial():
		if made.Err != nil {
			return nil, fmt.Errorf("cannot connect: %w: %w", made.Err, admission.ErrNotCharged)
		}
		return made.Val.(*client), nil
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", admission.ErrNotCharged, ctx.Err())
	}
}

// make makes the client and loads the script into the servers, which would otherwise cost the first decision a second
// trip; a server where that fails gets the script with the first decision. If the link was closed meanwhile, make
// closes the client.
func (l *link) make() (*client, error) {
	if c := l.client.Load(); c != nil { // made meanwhile
		return c, nil
	}
	if !l.life.Begin() {
		return nil, admission.ErrClosed
	}
	defer l.life.Done()
	c, err := rueidis.NewClient(l.option)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(l.life.Context(), l.option.ConnWriteTimeout)
	defer cancel()
	for _, node := range c.Nodes() {
		_ = node.Do(ctx, node.B().ScriptLoad().Script(script).Build()).Error()
	}
	made := &client{c, c.Mode() == rueidis.ClientModeCluster}
	if l.client.Store(made); l.life.Over() {
		l.drop() // close may have come before
		return nil, admission.ErrClosed
	}
	return made, nil
}

func (l *link) close() {
	l.life.Stop()
	l.drop() // which ends what waits for the servers
	l.life.End()
}

func (l *link) drop() {
	if c := l.client.Swap(nil); c != nil {
		c.Close()
	}
}
