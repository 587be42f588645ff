//go:build !unix

package http1

import "net"

// alive reports whether a kept connection may serve again, as far as that can be seen.
func alive(c net.Conn) bool { return quiet(c) }
