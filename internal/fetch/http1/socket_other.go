//go:build !unix

package http1

import "net"

// socket stands for the socket of a connection. On this system it is not checked.
type socket struct{}

func socketOf(net.Conn) *socket { return nil }

func (*socket) silent() bool { return true }
