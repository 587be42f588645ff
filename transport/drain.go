package transport

import (
	"io"
	"net/http"
	"time"
)

const (
	// maxDrain is how much of a body nobody wants is read to keep its connection. Error
	// pages are seldom as long; beyond it a new connection costs less than the bytes.
	maxDrain = 64 << 10
	// drainTime bounds the reading. It is generous for a new connection, of which a slow
	// body would cost the caller more.
	drainTime = time.Second
)

// Discard frees a response that nobody will get: it reads the rest of its body, up to
// 64 KiB and for a second, so that the connection can be used again, and closes it. A
// nil response and one that is closed already are fine.
func Discard(res *http.Response) {
	if res == nil || res.Body == nil {
		return
	}
	defer res.Body.Close() //nolint:errcheck // the body is given up
	if res.Body == http.NoBody || res.ContentLength > maxDrain || res.StatusCode == http.StatusSwitchingProtocols {
		return
	}
	//nolint:forbidigo // a watchdog unblocks a read; nothing waits on it
	watchdog := time.AfterFunc(drainTime, func() { _ = res.Body.Close() })
	defer watchdog.Stop()
	// One byte more than allowed, to see the end of a body of exactly the bound.
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, maxDrain+1))
}
