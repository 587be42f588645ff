package redis

import (
	"context"
)

type kind uint8

const (
	opNote kind = iota
	opPut
	opSpent
	opDone
	opLearned
	opSeeded
	opDeactivate
	opDraw
	opLoad
	opActivate
)

// phases says in which order kinds of calls are sent, and by which function: first notes and found URLs, then outcomes,
// returned hosts, and requests. Calls of the same phase keep their order.
var phases = [...]struct {
	at     uint8
	send   func(s *writer, ctx context.Context, ops []op) error
	single bool // one call at a time
}{
	opNote:       {0, (*writer).note, false},
	opPut:        {1, (*writer).put, false},
	opSpent:      {2, (*writer).finish, false},
	opDone:       {2, (*writer).finish, false},
	opLearned:    {2, (*writer).finish, false},
	opSeeded:     {3, func(s *writer, _ context.Context, _ []op) error { s.member.seeded(); return nil }, false},
	opDeactivate: {4, (*writer).give, false},
	opLoad:       {5, (*writer).load, false},
	opDraw:       {6, func(s *writer, ctx context.Context, ops []op) error { return s.draw(ctx, ops[0].n) }, true},
	opActivate:   {7, func(s *writer, ctx context.Context, ops []op) error { return s.acquire(ctx, int(ops[0].n)) }, true},
}

// op is one call that waits to be sent.
type op struct {
	kind kind
	hops uint8
	host string
	held *held
	id   int64
	fp   uint64
	n    int64  // for opPut: the rank; opDeactivate: milliseconds; opDraw, opLoad, opActivate: how many
	text string // an item, what was learned, or for opNote the reason
	seed string // for opPut: the URL of a seed

	budget  string // for opPut: the budget, as the script takes it
	refused bool   // for opDone: the URL must not be fetched

	answered, visited bool // for opNote: a host has answered a request, and a request for a URL
}

// batch is a list of calls of one script: one call per session and up to most operations. Operations of a session keep
// their order.
type batch struct {
	script *script
	most   int
	head   func(session ...string) []string // returns the first arguments of a call
	calls  []*call
	ops    [][]op // the operations of each call
	open   map[place]int
}

type place struct {
	partition int
	session   string // the same name may occur in many partitions
}

func (b *batch) add(p *part, session string, o op, args ...string) {
	at := place{p.index, session}
	i, ok := b.open[at]
	if !ok || len(b.ops[i]) >= b.most {
		i = len(b.calls)
		if b.open == nil {
			b.open = make(map[place]int)
		}
		b.open[at] = i
		b.calls = append(b.calls, &call{script: b.script, keys: []string{p.key}, args: b.head(session)})
		b.ops = append(b.ops, nil)
	}
	b.calls[i].args = append(b.calls[i].args, args...)
	b.ops[i] = append(b.ops[i], o)
}
