package disk

import (
	"sync"

	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/ratelimit"
)

// kind is what a call asks for.
type kind uint8

const (
	opPut kind = iota
	opDone
	opSpent
	opMeta
	opGuess
	opSeal  // ends a batch
	opLoad  // from here on: questions, which belong to no batch
	opRouse // likewise
	opRest  // none, but of no batch either
)

// op is one call, until it is written: a value and not a closure, since there is one for
// each link that is found.
type op struct {
	kind kind
	of   frontier.Kind // opPut
	flag bool          // opPut: dormant; opGuess: there is no sitemap
	n    int           // opLoad, opRouse: how many; opGuess: 1 if there is a link
	id   int64
	at   int64  // milliseconds: opPut: queued
	from int64  // opPut, opGuess: the ID of the referrer
	host string // opMeta: the key
	text string // opPut, opGuess: the URL; opMeta: the value

	rank, depth             int32
	hops, attempts, strikes uint8
	seed                    bool
	returns                 uint16
	positions               []frontier.Position // opSeal
	behind                  frontier.Place
	visit                   *frontier.Visit // opDone
}

// order is what somebody waits for.
type order struct {
	rates []ratelimit.HostMemory // to be stored; nil for none
	again *Again                 // to be begun; nil for none
	done  chan error             // holds one
}

// flushes reports whether the order is just for what was told before.
func (o *order) flushes() bool { return o.rates == nil && o.again == nil }

// inbox is what the writer has been told and has not taken yet.
type inbox struct {
	batch int           // calls that are worth a transaction
	wake  chan struct{} // holds one, for the writer

	mu     sync.Mutex // guards what follows
	ops    []op
	spare  []op // for the next ops
	sealed int  // so many of ops are of batches that have ended, or of none
	open   bool // a batch has begun and not ended
	asked  bool // there is a question among ops
	inTail bool // and behind those that are sealed
	orders []*order
	closed bool
	err    error // why nothing is taken any more
}

// add takes a call in. The writer is woken when there is work for it at once, and when
// the first batch ends, for it to look at the time. The end of no batch is none.
func (in *inbox) add(o op) (taken bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.closed || in.err != nil || o.kind == opSeal && !in.open && len(o.positions) == 0 {
		return false
	}
	first := in.sealed == 0
	in.ops = append(in.ops, o)
	switch {
	case o.kind == opSeal:
		in.sealed, in.open, in.inTail = len(in.ops), false, false
	case o.kind < opSeal:
		in.open = true
	default:
		in.asked = true
		if in.open {
			in.inTail = true
		} else {
			in.sealed = len(in.ops)
		}
	}
	if in.asked || len(in.ops) >= in.batch || first && in.sealed > 0 {
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
	if in.err != nil {
		return in.err
	}
	if in.closed {
		return ErrClosed
	}
	in.orders = append(in.orders, o)
	in.rouse()
	return nil
}

// close has the writer end.
func (in *inbox) close() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.closed = true
	in.rouse()
}

// fail takes nothing in any more, and returns the orders that nobody will carry out.
func (in *inbox) fail(err error) []*order {
	in.mu.Lock()
	defer in.mu.Unlock()
	orders := in.orders
	in.err, in.orders, in.ops, in.spare = err, nil, nil, nil
	in.sealed, in.asked, in.inTail = 0, false, false
	return orders
}

// taken is what the writer has to do next.
type taken struct {
	ops    []op
	sealed int // so many of them are of batches that have ended, or of none
	orders []*order
	closed bool
	later  bool // there are batches that may wait
}

// take hands over what is to be done now. A batch that has not ended stays until it has,
// unless there is a question in it or it is a large one. Batches that have ended may wait
// for others until time is up, or until they are worth a transaction together with the
// calls that have been written to the one that is open.
func (in *inbox) take(timeIsUp bool, written int) (t taken) {
	in.mu.Lock()
	defer in.mu.Unlock()
	t.orders, t.closed = in.orders, in.closed
	in.orders = nil
	n := in.sealed
	switch {
	case in.inTail || len(in.ops)-in.sealed >= in.batch:
		n = len(in.ops)
	case !timeIsUp && !in.asked && len(in.ops)+written < in.batch && len(t.orders) == 0 && !t.closed:
		t.later = in.sealed > 0
		return t
	}
	t.ops, t.sealed = in.ops[:n], in.sealed
	in.ops = append(in.spare[:0], in.ops[n:]...)
	in.spare = nil
	in.sealed, in.asked, in.inTail = 0, false, false
	return t
}

// mostSpare bounds the memory that stays for calls, after a batch that was out of all
// proportion, in batches of usual size.
const mostSpare = 8

// giveBack returns the memory of calls that have been written.
func (in *inbox) giveBack(ops []op) {
	clear(ops)
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.err == nil && in.spare == nil && cap(ops) <= mostSpare*in.batch {
		in.spare = ops[:0]
	}
}
