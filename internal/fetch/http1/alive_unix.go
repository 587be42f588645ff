//go:build unix

package http1

import (
	"crypto/tls"
	"net"
	"syscall"
)

// alive reports whether a kept connection may serve again: there is nothing to read from
// it, neither the end nor what was not asked for. It costs one system call, which finds
// most of the connections that a server has closed before a request is spent on them.
func alive(c net.Conn) bool {
	raw, ok := underlying(c).(syscall.Conn)
	if !ok {
		return quiet(c)
	}
	rc, err := raw.SyscallConn()
	if err != nil {
		return false
	}
	silent := false
	err = rc.Read(func(fd uintptr) bool {
		var b [1]byte
		_, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		silent = err == syscall.EAGAIN
		return true // whatever it was, do not wait for more
	})
	return err == nil && silent
}

// underlying is the connection below TLS, and below whatever else tells what it wraps.
func underlying(c net.Conn) net.Conn {
	for {
		switch in := c.(type) {
		case *tls.Conn:
			c = in.NetConn()
		case interface{ Inner() net.Conn }:
			c = in.Inner()
		default:
			return c
		}
	}
}
