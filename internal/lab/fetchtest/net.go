// Package fetchtest has servers for tests of clients.
//
// [Serve] has named hosts with ordinary handlers in memory, reached through
// [Net.DialContext], for testing/synctest bubbles. It records every request with its instant.
// A [Memory] is the network alone.
//
// [Hostile] is a server that breaks the rules of HTTP in one way per path. It listens on a
// loopback socket, or serves pipes inside a bubble.
//
// Both end with their test and leave no goroutine behind.
package fetchtest

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"
)

// Request is one request that a [Net] has received.
type Request struct {
	Host string    // as named to Serve
	Path string    // path and query as sent
	At   time.Time // when the handler was called
	Conn int       // number of the connection, in order of dialling, from 1
}

// Net is a set of named hosts. It is safe for concurrent use.
type Net struct {
	hosts    map[string]http.Handler
	server   *http.Server
	listener *listener
	busy     sync.WaitGroup // handlers running

	mu       sync.Mutex // guards what follows
	dialled  int
	requests []Request
}

// Serve starts a Net that ends with t. A key is a host name ("a.test": every port) or
// a host and port ("a.test:8080", which goes first); all speak plain HTTP/1.1. A nil
// handler is a host that refuses connections; a name that is missing does not resolve.
func Serve(t testing.TB, hosts map[string]http.Handler) *Net {
	t.Helper()
	n := &Net{hosts: hosts, listener: newListener("fetchtest:80")}
	n.server = &http.Server{
		Handler:     http.HandlerFunc(n.handle),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) },
		ErrorLog:    log.New(io.Discard, "", 0), //nolint:forbidigo // silence: broken connections are what tests are about
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := n.server.Serve(n.listener); !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
			t.Errorf("fetchtest: serve: %v", err)
		}
	}()
	t.Cleanup(func() {
		_ = n.server.Close() // of pipes: nothing can fail
		<-done
		n.busy.Wait()
	})
	return n
}

type connKey struct{}

func (n *Net) handle(w http.ResponseWriter, r *http.Request) {
	n.busy.Add(1)
	defer n.busy.Done()
	p, ok := r.Context().Value(connKey{}).(*pipe)
	if !ok {
		http.Error(w, "not dialled through this Net", http.StatusInternalServerError)
		return
	}
	n.mu.Lock()
	n.requests = append(n.requests, Request{Host: p.host, Path: r.RequestURI, At: time.Now(), Conn: p.number}) //nolint:forbidigo // the bubble's time
	n.mu.Unlock()
	n.hosts[p.host].ServeHTTP(w, r)
}

// DialContext connects to a host of the Net; it fits fetch.Config.
func (n *Net) DialContext(ctx context.Context, _, addr string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	key := addr
	if _, ok := n.hosts[key]; !ok {
		key = host
	}
	h, ok := n.hosts[key]
	if !ok {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	n.mu.Lock()
	n.dialled++
	number := n.dialled
	n.mu.Unlock()
	if h == nil {
		return (*listener)(nil).connect(ctx, addr, number, key)
	}
	return n.listener.connect(ctx, addr, number, key)
}

// Close makes every host refuse new connections. The end of the test does so too.
func (n *Net) Close() error { return n.listener.Close() }

// Requests are all requests so far, in order of arrival, or those of the hosts named.
func (n *Net) Requests(hosts ...string) []Request {
	n.mu.Lock()
	defer n.mu.Unlock()
	var list []Request
	for _, r := range n.requests {
		if len(hosts) == 0 || slices.Contains(hosts, r.Host) {
			list = append(list, r)
		}
	}
	return list
}

// Count is how many requests a host has received for a path and query, or in all if path is "".
func (n *Net) Count(host, path string) int {
	count := 0
	for _, r := range n.Requests(host) {
		if path == "" || r.Path == path {
			count++
		}
	}
	return count
}

// MinGap is the smallest time between two requests to host, or the largest duration if there
// were fewer than two.
func (n *Net) MinGap(host string) time.Duration {
	const none = time.Duration(1<<63 - 1)
	gap := none
	list := n.Requests(host)
	for i := 1; i < len(list); i++ {
		gap = min(gap, list[i].At.Sub(list[i-1].At))
	}
	return gap
}
