//go:build !unix

package http1

import "net"

// socket would be what the system knows of a connection. Here it is not asked.
type socket struct{}

func socketOf(net.Conn) *socket { return nil }

func (*socket) silent() bool { return true }
