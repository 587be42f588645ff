package testsite

import (
	"context"
	"fmt"
	"iter"
	"net"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/treadlight/crawl/internal/clock"
)

type how uint8

const (
	endAnswered how = iota
	endReset
	endHang
	endLeft
)

type ending struct {
	how     how
	status  int
	bytes   int64
	content bool // a page or document was sent in full
}

const bodyPieces = 8

// ServeHTTP answers one request as the host would. To reset a connection where there is none
// (in a recorder), it panics with [http.ErrAbortHandler].
func (h *host) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	t := h.route(r)
	if tell := h.site.cfg.Arrived; tell != nil {
		tell(h.index, r)
	}
	d := h.arrive(t)
	e := h.answer(w, r, t, d)
	h.finish(t, d, e)
	if e.how != endAnswered {
		hangUp(w)
	}
}

func (h *host) answer(w http.ResponseWriter, r *http.Request, t target, d decision) ending {
	// Of the same clock as the dates in other fields.
	w.Header().Set("Date", h.site.epoch.Add(time.Duration(h.site.now())).UTC().Format(http.TimeFormat))
	h.cfg.Refusal.setQuota(w.Header(), d.quota)
	switch d.act {
	case actReset:
		return ending{how: endReset}
	case actHang:
		h.hang(r.Context(), d.until)
		return ending{how: endHang}
	case actStatus:
		if d.retryAfter != "" {
			w.Header().Set("Retry-After", d.retryAfter)
		}
		if d.refused && h.cfg.Refusal.Body != "" {
			return h.send(w, r, d.status, "text/plain; charset=utf-8", []byte(h.cfg.Refusal.Body), 0)
		}
		return h.plain(w, r, d.status)
	}
	if err := clock.Sleep(r.Context(), h.site.clk, d.delay); err != nil {
		return ending{how: endLeft}
	}
	return h.serve(w, r, t)
}

// hang says nothing until the outage is over, the client has left or the site ends.
func (h *host) hang(ctx context.Context, until clock.Instant) {
	timer := h.site.clk.NewTimer(until.Sub(h.site.now()))
	defer timer.Stop()
	select {
	case <-timer.C():
	case <-ctx.Done():
	case <-h.site.stop:
	}
}

func (h *host) serve(w http.ResponseWriter, r *http.Request, t target) ending {
	switch t.kind {
	case kindPage:
		return h.generated(w, r, "text/html; charset=utf-8", h.appendPage, t.n)
	case kindPrivate:
		return h.generated(w, r, "text/html; charset=utf-8", h.leaf(streamPrivate), t.n)
	case kindListed:
		return h.generated(w, r, "text/html; charset=utf-8", h.leaf(streamListed), t.n)
	case kindSitemap:
		return h.sitemap(w, r, t.n)
	case kindMedia:
		return h.generated(w, r, mediaKinds[t.n%len(mediaKinds)].contentType, h.appendMedia, t.n)
	case kindRobots:
		if h.cfg.Robots.exists() || h.cfg.Listed > 0 {
			return h.send(w, r, http.StatusOK, "text/plain; charset=utf-8", h.robotsFile(), 0)
		}
	case kindRedirect:
		status, location := h.redirect(t.n)
		w.Header().Set("Location", location)
		return h.plain(w, r, status)
	case kindMethod:
		w.Header().Set("Allow", "GET, HEAD")
		return h.plain(w, r, http.StatusMethodNotAllowed)
	}
	return h.plain(w, r, http.StatusNotFound)
}

func (h *host) plain(w http.ResponseWriter, r *http.Request, status int) ending {
	line := fmt.Appendf(nil, "%d %s\n", status, http.StatusText(status))
	return h.send(w, r, status, "text/plain; charset=utf-8", line, 0)
}

// generated sends a document made in a buffer that outlives the request.
func (h *host) generated(w http.ResponseWriter, r *http.Request, contentType string, build func([]byte, int) []byte, n int) ending {
	buf := h.site.buffers.Get().(*[]byte)
	defer h.site.buffers.Put(buf)
	*buf = build((*buf)[:0], n)
	e := h.send(w, r, http.StatusOK, contentType, *buf, h.cfg.Latency.Body)
	e.content = e.how == endAnswered && r.Method == http.MethodGet
	return e
}

// send writes an answer, its body spread over the time given. It has a Content-Length, so that
// a client notices a body that was cut off.
//
// The last byte is written apart: net/http keeps it until the handler has returned, so whoever
// has the whole answer finds it counted, and its slot free.
func (h *host) send(w http.ResponseWriter, r *http.Request, status int, contentType string, body []byte, over time.Duration) ending {
	header := w.Header()
	header.Set("Content-Type", contentType)
	header.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	e := ending{status: status}
	if r.Method == http.MethodHead {
		return e
	}
	for part := range pieces(body, over) {
		var err error
		if over > 0 {
			err = h.trickle(w, r, over/bodyPieces)
		}
		if err == nil {
			err = e.write(w, part[:len(part)-1])
		}
		if err == nil {
			err = e.write(w, part[len(part)-1:])
		}
		if err != nil {
			e.how = endLeft
			return e
		}
	}
	return e
}

func (e *ending) write(w http.ResponseWriter, part []byte) error {
	n, err := w.Write(part)
	e.bytes += int64(n)
	return err
}

func pieces(body []byte, over time.Duration) iter.Seq[[]byte] {
	n := 1
	if over > 0 {
		n = bodyPieces
	}
	return slices.Chunk(body, max(1, (len(body)+n-1)/n))
}

// trickle sends what has been written, the header at first, and pauses before more.
func (h *host) trickle(w http.ResponseWriter, r *http.Request, pause time.Duration) error {
	if err := http.NewResponseController(w).Flush(); err != nil {
		return err
	}
	return clock.Sleep(r.Context(), h.site.clk, pause)
}

// hangUp closes the connection under an answer; over TCP with a reset, which is what
// a crashed server sends.
func hangUp(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // an error leaves an ordinary close, which will do
	}
	_ = conn.Close() // there is nobody left to tell
}
