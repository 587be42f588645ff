//go:build unix

package http1

import (
	"net"
	"syscall"
)

type socket struct {
	raw  syscall.RawConn
	peek func(fd uintptr) bool // made once, because each request calls it
	none bool                  // result of peek: there is nothing to read
}

// socketOf returns nil if c has no socket.
func socketOf(c net.Conn) *socket {
	sc, ok := c.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return nil
	}
	s := &socket{raw: raw}
	s.peek = func(fd uintptr) bool {
		var b [1]byte
		_, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		s.none = err == syscall.EAGAIN
		return true // whatever the result, do not wait for more
	}
	return s
}

// silent reports whether there is nothing to read, not even an end.
func (s *socket) silent() bool {
	s.none = false
	return s.raw.Read(s.peek) == nil && s.none
}
