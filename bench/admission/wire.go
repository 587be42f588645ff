package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"time"
)

// overLoopback is a load of so many connections to a server that has the handler. The
// senders write requests that are ready and look at the status only, so that most of
// the time is the server's.
func overLoopback(h handler, width, keys int) (load, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return load{}, err
	}
	server := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(listener) // ends with Close
	}()
	l := load{cpu: true, trips: h.trips, end: func() {
		_ = server.Close()
		<-served
	}}
	texts := wireRequests(keys)
	for range width {
		c, err := net.Dial("tcp", listener.Addr().String())
		if err != nil {
			l.close()
			return load{}, err
		}
		l.senders = append(l.senders, overConn(c, texts))
		end := l.end
		l.end = func() { _ = c.Close(); end() }
	}
	return l, nil
}

// wireRequests are requests as they are sent. All come from one address, so that only
// the header tells them apart.
func wireRequests(keys int) [][]byte {
	texts := make([][]byte, keys)
	for i, c := range clients(keys) {
		texts[i] = fmt.Appendf(nil, "GET %s HTTP/1.1\r\nHost: a.test\r\n%s: %s\r\n\r\n", target, keyHeader, c.header)
	}
	return texts
}

// overConn is a sender with a connection of its own.
func overConn(c net.Conn, texts [][]byte) func(int) error {
	in := bufio.NewReader(c)
	at := rand.IntN(len(texts))
	return func(n int) error {
		for range n {
			at = (at + stride) % len(texts)
			if _, err := c.Write(texts[at]); err != nil {
				return err
			}
			if err := skipAnswer(in); err != nil {
				return err
			}
		}
		return nil
	}
}

// skipAnswer reads an answer without a body.
func skipAnswer(in *bufio.Reader) error {
	line, err := in.ReadSlice('\n')
	if err != nil {
		return err
	}
	if !bytes.HasPrefix(line, []byte("HTTP/1.1 200")) {
		return errors.New("it answers with " + string(bytes.TrimSpace(line)))
	}
	for len(bytes.TrimSpace(line)) > 0 {
		if line, err = in.ReadSlice('\n'); err != nil {
			return err
		}
	}
	return nil
}
