package disk

import (
	"sync"

	"github.com/treadlight/crawl/internal/frontier"
)

// kind is what a call asks for.
type kind uint8

const (
	opPut kind = iota
	opDone
	opSpent
	opMeta
	opGuess
	opSeal // has positions
	opRest
	opLoad // from here on: questions
	opRouse
)

// op is one call, until it is written: a value and not a closure, since there is one for each link that is found.
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

// order is what somebody waits for, behind the batches that have ended.
type order struct {
	do   func(*writer) error // nil: what was told before is to be on the disk
	done chan error          // holds one
}

// inbox is the batches that the writer was told and has not taken yet.
type inbox struct {
	enough int           // calls that are worth a transaction
	wake   chan struct{} // holds one, for the writer

	mu     sync.Mutex // guards what follows
	ops    []op
	asked  bool // there is a question among ops
	orders []*order
	closed bool
	err    error // why nothing is taken any more
}

// add takes a batch in, and wakes the writer for urgent work and for the first batch.
func (in *inbox) add(batch []op) (taken bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.closed || in.err != nil {
		return false
	}
	first := len(in.ops) == 0
	in.ops = append(in.ops, batch...)
	for i := range batch {
		in.asked = in.asked || batch[i].kind >= opLoad
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

// fail takes nothing in any more, and answers the orders that nobody will carry out.
func (in *inbox) fail(err error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, o := range in.orders {
		o.done <- err
	}
	in.err, in.orders, in.ops, in.asked = err, nil, nil, false
}

// taken is what the writer has to do next.
type taken struct {
	ops    []op
	orders []*order
	closed bool
	later  bool // there are batches that may wait
}

// mostSpare bounds the memory that stays for calls, in batches of usual size.
const mostSpare = 8

// take hands over the work due now, in place of the last. Batches may wait until time is up, or until they are worth a
// transaction with the calls already written.
func (in *inbox) take(timeIsUp bool, written int, before []op) (t taken) {
	clear(before)
	in.mu.Lock()
	defer in.mu.Unlock()
	t = taken{orders: in.orders, closed: in.closed}
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
