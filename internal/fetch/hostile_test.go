package fetch_test

import (
	"bytes"
	"log"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/fetch"
	"github.com/treadlight/crawl/internal/lab/fetchtest"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
)

// classification is what must be said of a behaviour, and whether what arrived is handed over.
type classification struct {
	op       fetch.Op
	class    outcome.Class
	body     string // what must have arrived; "*" is anything not empty, "" is no Response
	took     time.Duration
	duration string // reason for the time
}

// classifications is the whole list; times are the defaults of Config, in a bubble.
var classifications = map[fetchtest.Behavior]classification{
	fetchtest.Hang:           {op: fetch.OpHeader, class: outcome.Timeout, took: 20 * time.Second, duration: "HeaderTimeout"},
	fetchtest.HangInHeader:   {op: fetch.OpHeader, class: outcome.Timeout, took: 20 * time.Second, duration: "HeaderTimeout"},
	fetchtest.SlowHeader:     {op: fetch.OpHeader, class: outcome.Timeout, took: 20 * time.Second, duration: "HeaderTimeout"},
	fetchtest.HangInBody:     {op: fetch.OpBody, class: outcome.Timeout, body: "half", took: 15 * time.Second, duration: "BodyTimeout"},
	fetchtest.SlowBody:       {op: fetch.OpBody, class: outcome.Timeout, body: "drop\ndrop\ndrop\n", took: 30 * time.Second, duration: "Timeout"},
	fetchtest.EndlessHeader:  {op: fetch.OpHeader, class: outcome.TooLarge},
	fetchtest.HugeHeader:     {op: fetch.OpHeader, class: outcome.TooLarge},
	fetchtest.Flood1xx:       {op: fetch.OpHeader, class: outcome.TooLarge},
	fetchtest.EndlessBody:    {op: fetch.OpBody, class: outcome.TooLarge, body: "*"},
	fetchtest.EndlessChunks:  {op: fetch.OpBody, class: outcome.TooLarge, body: "*"},
	fetchtest.CloseMidBody:   {op: fetch.OpBody, class: outcome.Network, body: "ten bytes!"},
	fetchtest.LongBody:       {class: outcome.OK, body: "four"},
	fetchtest.BadChunk:       {op: fetch.OpBody, class: outcome.Protocol, body: "four"},
	fetchtest.CutChunk:       {op: fetch.OpBody, class: outcome.Network, body: "fourcut"},
	fetchtest.LongExtension:  {op: fetch.OpBody, class: outcome.Protocol, body: "four"},
	fetchtest.ManyExtensions: {op: fetch.OpBody, class: outcome.Protocol, body: "*"},
	fetchtest.EndlessTrailer: {op: fetch.OpBody, class: outcome.Protocol, body: "four"},
	fetchtest.ResetMidBody:   {op: fetch.OpBody, class: outcome.Network, body: "ten bytes!"},
	fetchtest.GzipName:       {op: fetch.OpDecode, class: outcome.Decode},
	fetchtest.Headless:       {op: fetch.OpHeader, class: outcome.Protocol},
	fetchtest.RedirectLoop:   {class: outcome.Redirect},
	fetchtest.GzipGarbage:    {op: fetch.OpDecode, class: outcome.Decode},
	fetchtest.GzipCut:        {op: fetch.OpDecode, class: outcome.Decode, body: "*"},
	fetchtest.GzipBomb:       {op: fetch.OpBody, class: outcome.TooLarge, body: "*"},
	fetchtest.BrotliBomb:     {op: fetch.OpBody, class: outcome.TooLarge, body: "*"},
	fetchtest.ZstdBomb:       {op: fetch.OpBody, class: outcome.TooLarge, body: "*"},
	fetchtest.DeflateBomb:    {op: fetch.OpBody, class: outcome.TooLarge, body: "*"},
	fetchtest.EmptyMembers:   {op: fetch.OpBody, class: outcome.TooLarge},
	fetchtest.UnknownCoding:  {class: outcome.OK, body: "... --- ..."},
	fetchtest.ManyCodings:    {op: fetch.OpDecode, class: outcome.Decode},
	fetchtest.BadStatusLine:  {op: fetch.OpHeader, class: outcome.Protocol},
	fetchtest.NotHTTP:        {op: fetch.OpHeader, class: outcome.Protocol},
	fetchtest.NegativeLength: {op: fetch.OpHeader, class: outcome.Protocol},
	fetchtest.TwoLengths:     {op: fetch.OpHeader, class: outcome.Protocol},
	fetchtest.Reset:          {op: fetch.OpHeader, class: outcome.Network},
	fetchtest.CloseSilently:  {op: fetch.OpHeader, class: outcome.Network},
	fetchtest.LowStatus:      {op: fetch.OpHeader, class: outcome.ServerError},
	fetchtest.Upgrade:        {op: fetch.OpHeader, class: outcome.Protocol},
	fetchtest.SecondTime:     {class: outcome.OK, body: "ok"},
}

const hostileBound = 256 << 10

func (v classification) check(t *testing.T, res *fetch.Response, err error) {
	t.Helper()
	status := 0
	if res != nil {
		status = res.Status
	}
	require.Equal(t, v.class, outcome.Of(status, err), "error: %v", err)
	if v.op != "" {
		e := asError(t, err)
		require.Equal(t, v.op, e.Op, "error: %v", err)
		require.False(t, e.Stale)
		require.Equal(t, 1, e.Sends)
	}
	v.checkBody(t, res)
}

func (v classification) checkBody(t *testing.T, res *fetch.Response) {
	t.Helper()
	if v.op == fetch.OpHeader {
		require.Nil(t, res)
		return
	}
	require.NotNil(t, res)
	switch v.body {
	case "*":
		require.NotEmpty(t, res.Body)
		require.Equal(t, v.op == fetch.OpBody, res.Truncated)
		require.Equal(t, v.class == outcome.TooLarge, len(res.Body) == hostileBound, "body of %d bytes", len(res.Body))
	default:
		require.Equal(t, v.body, string(res.Body))
	}
	require.LessOrEqual(t, res.WireBytes, int64(hostileBound+100<<10), "read on after the bound")
	res.Release()
}

func TestHostileList(t *testing.T) {
	for _, b := range fetchtest.Behaviors() {
		require.Contains(t, classifications, b, "no classification on a behaviour")
	}
	require.Len(t, classifications, len(fetchtest.Behaviors()))
}

// TestHostilePipes meets every behaviour in a bubble, where the time taken is exact.
func TestHostilePipes(t *testing.T) {
	for b, v := range classifications {
		inBubble(t, string(b)[1:], func(t *testing.T) {
			h := fetchtest.HostilePipes(t)
			c := newClient(t, fetch.Config{DialContext: h.DialContext, MaxBody: hostileBound})
			begin := time.Now()
			res, err := c.Fetch(t.Context(), fetch.Request{URL: h.URL(b)})
			require.Equal(t, v.took, time.Since(begin), "the limit is %s; error: %v", v.duration, err)
			v.check(t, res, err)
			require.Equal(t, 1, h.Seen(b))
		})
	}
}

// TestHostileSockets meets them on real sockets, and a good page after each, so that a connection which must not be
// kept would show. The slow ones wait on the clock and are left to the bubbles.
func TestHostileSockets(t *testing.T) {
	var logged bytes.Buffer
	standard := log.Writer()
	log.SetOutput(&logged)
	defer log.SetOutput(standard)
	h := fetchtest.Hostile(t)
	for b, v := range classifications {
		cfg := fetch.Config{AllowPrivate: true, MaxBody: hostileBound}
		if v.took > 0 {
			if b == fetchtest.SlowHeader || b == fetchtest.SlowBody {
				continue
			}
			cfg.HeaderTimeout, cfg.BodyTimeout = 50*time.Millisecond, 50*time.Millisecond
		}
		t.Run(string(b)[1:], func(t *testing.T) {
			c := newClient(t, cfg)
			res, err := c.Fetch(t.Context(), fetch.Request{URL: h.URL(b)})
			v.check(t, res, err)
			if v.took == 0 {
				res, err = c.Fetch(t.Context(), fetch.Request{URL: h.URL("/good")})
				if err != nil {
					// Bytes left over from the answer before may be there when the connection is
					// taken again, or come a moment later and be noticed: that is the race of a
					// stale connection, which is named so and does not outlive the error.
					require.True(t, asError(t, err).Stale, err)
					res, err = c.Fetch(t.Context(), fetch.Request{URL: h.URL("/good")})
				}
				require.NoError(t, err)
				require.Equal(t, "ok", string(res.Body))
			}
		})
	}
	log.SetOutput(standard) // a late line must not race with the reading
	for line := range strings.Lines(logged.String()) {
		require.Contains(t, line, "Unsolicited response", "net/http logs something that the package comment does not name")
	}
}
