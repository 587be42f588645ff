package fetch

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/treadlight/crawl/internal/clock"
)

// headStart is the time after which the next attempt starts next to one in progress, as in package net (RFC 8305
// section 5).
const headStart = 300 * time.Millisecond

// leastTry is the least share of the remaining time that an address gets, unless less is left: enough for a SYN and its
// repetition after a second.
const leastTry = 2 * time.Second

// race connects to the addresses, alternating IP versions, with at most two attempts at a time, and returns the first
// connection. If all fail, the error is that of the first address.
func race(ctx context.Context, addrs []netip.Addr, dial func(context.Context, netip.Addr) (net.Conn, error)) (net.Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type end struct {
		c   net.Conn
		err error
		at  int
	}
	addrs = alternate(addrs)
	ends, next, running := make(chan end), 0, 0
	start := func() {
		if next == len(addrs) || running == 2 || ctx.Err() != nil {
			return
		}
		at := next
		next, running = next+1, running+1
		go func() {
			try, done := share(ctx, len(addrs)-at)
			defer done()
			c, err := dial(try, addrs[at])
			ends <- end{c, err, at}
		}()
	}
	late := clock.System().NewTimer(headStart)
	defer late.Stop()
	start()
	var won net.Conn
	var failed error
	for running > 0 { // the loser ends soon, as ctx is canceled
		select {
		case e := <-ends:
			running--
			switch {
			case e.err != nil:
				if failed == nil || e.at == 0 {
					failed = e.err
				}
				start()
			case won != nil:
				_ = e.c.Close()
			default:
				won = e.c
				cancel()
			}
		case <-late.C():
			start()
			late.Reset(headStart)
		}
	}
	switch {
	case won != nil:
		return won, nil
	case failed == nil:
		failed = context.Cause(ctx)
	}
	return nil, failed
}

// alternate reorders addresses so that IP versions alternate, beginning with that of the first.
func alternate(addrs []netip.Addr) []netip.Addr {
	odd := func(a netip.Addr) bool { return a.Is4() != addrs[0].Is4() }
	first := slices.DeleteFunc(slices.Clone(addrs), odd)
	second := slices.DeleteFunc(slices.Clone(addrs), func(a netip.Addr) bool { return !odd(a) })
	var mixed []netip.Addr
	for i := range max(len(first), len(second)) {
		mixed = append(mixed, first[min(i, len(first)):min(i+1, len(first))]...)
		mixed = append(mixed, second[min(i, len(second)):min(i+1, len(second))]...)
	}
	return mixed
}

// share limits ctx to the part of the remaining time that the first of n attempts may take.
func share(ctx context.Context, n int) (context.Context, context.CancelFunc) {
	end, ok := ctx.Deadline()
	if !ok || n == 1 {
		return ctx, func() {}
	}
	left := end.Sub(now())
	return context.WithTimeout(ctx, max(left/time.Duration(n), min(left, leastTry)))
}
