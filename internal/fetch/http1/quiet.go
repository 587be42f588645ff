package http1

import (
	"crypto/tls"
	"errors"
	"net"
	"os"
	"time"
)

// quiet is alive for connections of which the system knows nothing, such as those in
// memory: they say at once whether they have ended. One under TLS is believed to live.
func quiet(c net.Conn) bool {
	if _, ok := c.(*tls.Conn); ok {
		return true
	}
	if c.SetReadDeadline(time.Unix(1, 0)) != nil {
		return false
	}
	n, err := c.Read(make([]byte, 1))
	return n == 0 && errors.Is(err, os.ErrDeadlineExceeded) && c.SetReadDeadline(time.Time{}) == nil
}
