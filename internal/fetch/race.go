package fetch

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/treadlight/crawl/internal/clock"
)

// headStart is how long the preferred version of IP has before the other one is tried beside
// it, as in package net (RFC 8305 section 5 recommends 250 ms, and 2 s at most).
const headStart = 300 * time.Millisecond

// leastTry is what an address gets of the time that is left, unless it is the last one:
// a first SYN and its repetition after a second.
const leastTry = 2 * time.Second

type dialAddr func(context.Context, netip.Addr) (net.Conn, error)

// race connects to the first address that answers: those of the version of IP that comes
// first one after another, and a little later those of the other version beside them. It is
// what package net does with a name, and so a host gets no more than two attempts at a
// time. The error is that of the first address.
func race(ctx context.Context, clk clock.Clock, addrs []netip.Addr, dial dialAddr) (net.Conn, error) {
	first, second := families(addrs)
	if len(second) == 0 {
		return serial(ctx, clk, first, dial)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type end struct {
		c     net.Conn
		err   error
		first bool
	}
	ends, failed := make(chan end, 2), make(chan struct{})
	go func() {
		c, err := serial(ctx, clk, first, dial)
		if err != nil {
			close(failed)
		}
		ends <- end{c, err, true}
	}()
	go func() {
		late := clk.NewTimer(headStart)
		defer late.Stop()
		select {
		case <-late.C():
		case <-failed:
		case <-ctx.Done():
		}
		c, err := serial(ctx, clk, second, dial)
		ends <- end{c, err, false}
	}()
	var won net.Conn
	var err error
	for range 2 { // the loser ends soon: its time is up
		switch e := <-ends; {
		case e.err != nil && (e.first || err == nil):
			err = e.err
		case e.err != nil:
		case won != nil:
			_ = e.c.Close()
		default:
			won = e.c
			cancel()
		}
	}
	if won != nil {
		return won, nil
	}
	return nil, err
}

// families sorts addresses by the version of IP; first is that of the first of them.
func families(addrs []netip.Addr) (first, second []netip.Addr) {
	odd := func(a netip.Addr) bool { return a.Is4() != addrs[0].Is4() }
	if !slices.ContainsFunc(addrs, odd) {
		return addrs, nil
	}
	for _, a := range addrs {
		if odd(a) {
			second = append(second, a)
		} else {
			first = append(first, a)
		}
	}
	return first, second
}

// serial tries one address after another, each with its share of the time.
func serial(ctx context.Context, clk clock.Clock, addrs []netip.Addr, dial dialAddr) (net.Conn, error) {
	var first error
	for i, a := range addrs {
		if err := ctx.Err(); err != nil {
			break
		}
		try, done := share(ctx, clk, len(addrs)-i)
		c, err := dial(try, a)
		done()
		if err == nil {
			return c, nil
		}
		if first == nil {
			first = err
		}
	}
	if first == nil {
		first = context.Cause(ctx)
	}
	return nil, first
}

// share is the time that one of n attempts may take of what is left.
func share(ctx context.Context, clk clock.Clock, n int) (context.Context, context.CancelFunc) {
	end, ok := ctx.Deadline()
	if !ok || n == 1 {
		return ctx, func() {}
	}
	left := end.Sub(clk.Now())
	return context.WithTimeout(ctx, max(left/time.Duration(n), min(left, leastTry)))
}
