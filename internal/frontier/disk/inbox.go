package disk

import (
	"errors"
	"sync"

	"github.com/treadlight/crawl/internal/frontier"
)

// kind is what a call asks for.
type kind uint8

const (
	opPut kind = iota
	opDone
	opSpent
	opNote // do stores something else
	opAsk  // do answers a question
)

// op is one call, until it is written: a value and not a closure where there is one for each link that is found.
type op struct {
	kind    kind
	dormant bool // opPut
	host    string
	item    frontier.Item
	visit   *frontier.Visit // opDone
	do      func(*writer) error
}

// order is what somebody waits for, behind the batches that have ended.
type order struct {
	do   func(*writer) error // nil: what was told before is to be on the disk
	done chan error          // holds one
}

// inbox is what the writer was told and has not taken yet.
type inbox struct {
	enough int           // calls that are worth a transaction
	wake   chan struct{} // holds one, for the writer

	mu     sync.Mutex // guards what follows
	ops    []op
	asked  bool // there is a question among ops
	orders []*order
	err    error // why nothing is taken any more; nil: it is
}

// add takes a batch in, and wakes the writer for urgent work and for the first batch.
func (in *inbox) add(batch []op) (taken bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.err != nil {
		return false
	}
	first := len(in.ops) == 0
	in.ops = append(in.ops, batch...)
	for i := range batch {
		in.asked = in.asked || batch[i].kind == opAsk
	}
	if first || in.asked || len(in.ops) >= in.enough {
		in.rouse()
	}
	return true
}

func (in *inbox) rouse() {
	select {
	case in.wake <- struct{}{}:
	default:
	}
}

// order takes an order in, or returns why not.
func (in *inbox) order(o *order) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.err == nil {
		in.orders = append(in.orders, o)
		in.rouse()
	}
	return in.err
}

// end takes nothing in any more. On a failure nobody will carry out what is there, and the orders are answered.
func (in *inbox) end(err error, failed bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if failed {
		for _, o := range in.orders {
			o.done <- err
		}
		in.orders, in.ops, in.asked = nil, nil, false
	}
	if in.err == nil || failed {
		in.err = err
	}
	in.rouse()
}

// taken is what the writer has to do next.
type taken struct {
	ops    []op
	orders []*order
	closed bool
	later  bool // there are batches that may wait
}

// mostSpare bounds the memory that stays for calls, in batches of usual size.
const mostSpare = 4

// take hands over the work due now, in place of the last. Batches may wait until time is up, or until they are worth a
// transaction with the calls already written.
func (in *inbox) take(timeIsUp bool, written int, before []op) (t taken) {
	clear(before)
	in.mu.Lock()
	defer in.mu.Unlock()
	t = taken{orders: in.orders, closed: errors.Is(in.err, ErrClosed)}
	in.orders = nil
	if !timeIsUp && !in.asked && len(in.ops)+written < in.enough && len(t.orders) == 0 && !t.closed {
		t.ops, t.later = before[:0], len(in.ops) > 0
		return t
	}
	if cap(before) > mostSpare*in.enough {
		before = nil
	}
	t.ops, in.ops, in.asked = in.ops, before[:0], false
	return t
}
