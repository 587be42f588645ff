package redis

import "sync"

// kind is what a call asks for. A batch is sent in this order, which is that of what
// depends on what: links come before the end of the page that they were found on.
type kind uint8

const (
	opNote kind = iota
	opPut
	opSpent
	opDone
	opLearned
	opSeeded
	opGive
	opLoad
	opRouse
)

// op is one call, until it is sent.
type op struct {
	kind kind
	hops uint8
	host string
	held *held
	id   int64
	fp   uint64
	also uint64 // opPut: the fingerprint under which it is a page where no sitemap is; zero: none is looked for there
	none bool   // opPut: no URL, but that there is no sitemap
	n    int64  // opPut: rank; opGive: milliseconds; opLoad, opRouse: how many
	text string // an item, what was learned, or opNote: why
	seed string // opPut: the URL of a seed

	budget  string // opPut: as the script takes it
	refused bool   // opDone: it was not to be fetched
}

// inbox is what the writer has been told and has not taken yet.
type inbox struct {
	wake chan struct{} // holds one, for the writer

	mu     sync.Mutex // guards what follows
	ops    []op
	asked  bool // there is a question among ops
	closed bool
	done   chan struct{} // made by ended
}

// urgent is how many calls are not made to wait for more.
const urgent = 1024

func (in *inbox) add(o op) (taken bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.closed {
		return false
	}
	in.ops = append(in.ops, o)
	in.asked = in.asked || o.kind >= opLoad
	if len(in.ops) == 1 || in.asked || len(in.ops) >= urgent {
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

// take hands over all that was told, unless it may wait for more. later says that there is
// such.
func (in *inbox) take(timeIsUp bool) (ops []op, later, closed bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if len(in.ops) > 0 && !timeIsUp && !in.asked && len(in.ops) < urgent && !in.closed {
		return nil, true, false
	}
	ops, in.ops, in.asked = in.ops, nil, false
	return ops, false, in.closed
}

func (in *inbox) close() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.closed = true
	in.rouse()
}

// ended is closed when the writer has ended.
func (in *inbox) ended() chan struct{} {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.done == nil {
		in.done = make(chan struct{})
	}
	return in.done
}
