package pipeline

import (
	"context"
	"unicode/utf8"

	"golang.org/x/sync/semaphore"

	"github.com/treadlight/crawl/internal/records/sink"
)

// maxHeld bounds the bytes of bodies and exchanges in records that wait for Output, beside
// one for each goroutine of Processing. Without it a few dozen pages of the largest size
// would wait there; a page of the usual size never notices.
const maxHeld = 64 << 20

// bodies is the room for what records carry along. A record of more than all of it has the
// room to itself.
type bodies struct{ room *semaphore.Weighted }

func newBodies() bodies { return bodies{semaphore.NewWeighted(maxHeld)} }

// hold waits for room for a record; it fails only with ctx.
func (b bodies) hold(ctx context.Context, r *result) error {
	n := len(r.rec.Body) + len(r.rec.BodyBase64)
	if x := r.rec.Exchange; x != nil {
		n += len(x.Request) + len(x.Response) + len(x.Payload)
	}
	if n == 0 {
		return nil
	}
	want := min(int64(n), maxHeld)
	if err := b.room.Acquire(ctx, want); err != nil {
		return err
	}
	r.held = want
	return nil
}

// release gives the room of a record back, which is written.
func (b bodies) release(r *result) {
	if r.held > 0 {
		b.room.Release(r.held)
		r.held = 0
	}
}

// store puts a body into a record, as text if it can be told from it byte by byte.
func store(rec *sink.Record, body []byte) {
	if utf8.Valid(body) {
		rec.Body = string(body)
		return
	}
	rec.BodyBase64 = append([]byte(nil), body...)
}
