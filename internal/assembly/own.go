package assembly

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"runtime/debug"

	"github.com/treadlight/crawl/internal/fetch/cookies"
	"github.com/treadlight/crawl/internal/frontier/disk"
	"github.com/treadlight/crawl/internal/pipeline"
	"github.com/treadlight/crawl/internal/records/sink"
	"github.com/treadlight/crawl/internal/web/content"
	"github.com/treadlight/crawl/internal/web/extract"
	"github.com/treadlight/crawl/internal/web/mediatype"
	"github.com/treadlight/crawl/record"
)

// Own is what a program brings into its crawl: see crawl.Options.
type Own struct {
	OnRequest  func(*http.Request) error
	OnResponse func(*http.Response) error
	Panics     bool // lets a panic of what belongs to the program end it; false turns it into an error
	Embedded   bool // the sinks and handlers belong to a program, so that no other can resume the crawl
	Transport  http.RoundTripper
	Named      func(host string) bool // reports whether the user named the host of a seed; nil means always
	Cookies    cookies.Keeper         // nil means the jar of the settings
}

// Embedded reports whether the crawl was run by a program that embeds the crawler, so that its sinks and handlers are
// that program's.
func (s *State) Embedded() bool { return s.store.Meta(disk.MetaEmbedded) != "" }

// Embed checks what a program has brought into the configuration, and turns its panics into errors unless Panics is
// set. The error names the fields that are wrong, with root in front.
func (c *Config) Embed(root string) error {
	c.Embedded = true
	errs := checkSinks(root, c.Sinks, c.Archives)
	wrong := func(field, text string) { errs = append(errs, fmt.Errorf("%s.%s: %s", root, field, text)) }
	for name, h := range c.Bodies {
		if !mediatype.Valid(name, true) {
			wrong(fmt.Sprintf("Bodies[%q]", name), noMediaType)
		}
		if h.Handle == nil || h.Timeout < 0 {
			wrong(fmt.Sprintf("Bodies[%q]", name), "set Handle, and a Timeout of zero or more")
		}
	}
	for name, read := range c.Extractors {
		if !mediatype.Valid(name, false) {
			wrong(fmt.Sprintf("Extractors[%q]", name), noMediaType)
		}
		if read == nil {
			wrong(fmt.Sprintf("Extractors[%q]", name), "it is nil")
		}
	}
	if c.Cookies != nil && (c.Access.Cookies || c.Access.CookieFile != "") {
		wrong("CookieJar", "it replaces Access.Cookies and Access.CookieFile: set one of them")
	}
	if c.Transport != nil && c.Access.Proxy != "" {
		wrong("Access.Proxy", "Transport and Fetcher make connections of their own: set one of them")
	}
	c.guard(guard{c.Panics, c.Log})
	return errors.Join(errs...)
}

const noMediaType = `it is no media type: write it as "application/pdf", in lower case and without parameters`

// checkSinks returns errors for sinks that are nil or that write to the same place: a state keeps one position for
// each.
func checkSinks(root string, sinks, archives []record.Sink) (errs []error) {
	known := make(map[string]string) // field by path
	for n, list := range [][]record.Sink{sinks, archives} {
		for i, s := range list {
			field := fmt.Sprintf("%s.%s[%d]", root, [...]string{"Sinks", "Archives"}[n], i)
			if s == nil {
				errs = append(errs, fmt.Errorf("%s: it is nil", field))
			}
			durable, ok := s.(record.Durable)
			if !ok {
				continue
			}
			path := durable.Mark().Path
			if first := known[path]; first != "" {
				errs = append(errs, fmt.Errorf("%s: it writes to %s, as %s does: give it a place of its own", field, path, first))
			} else if path != "" && path != sink.Stdout {
				known[path] = field
			}
		}
	}
	return errs
}

// guard calls what belongs to a program. It turns a panic into an error and logs the stack.
type guard struct {
	panics bool         // lets a panic end the program
	log    *slog.Logger // nil: nothing is logged
}

func (g guard) call(name string, own func() error) (err error) {
	if g.panics {
		return own()
	}
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v", v)
			if g.log != nil {
				g.log.Error("a hook panicked", slog.String("hook", name), slog.Any("panic", v), slog.String("stack", string(debug.Stack())))
			}
		}
	}()
	return own()
}

// guard puts g around what belongs to a program.
func (c *Config) guard(g guard) {
	if own := c.Handle; own != nil {
		c.Handle = func(ctx context.Context, page *pipeline.Page) error {
			return g.call("OnPage or Router", func() error { return own(ctx, page) })
		}
	}
	c.OnRequest = guarded(g, "OnRequest", c.OnRequest)
	c.OnResponse = guarded(g, "OnResponse", c.OnResponse) //nolint:bodyclose // the transport closes it
	c.OnError, c.OnSkip, c.OnEvent = told(g, "OnError", c.OnError), told(g, "OnSkip", c.OnSkip), told(g, "OnEvent", c.OnEvent)
	for _, h := range c.Bodies {
		own := h.Handle
		h.Handle = func(ctx context.Context, page *pipeline.Page, body io.Reader) error {
			return g.call("Bodies", func() error { return own(ctx, page, body) })
		}
	}
	for name, own := range c.Extractors {
		c.Extractors[name] = func(ctx context.Context, d *extract.Document) (out *content.Extracted, err error) {
			err = g.call("Extractors", func() error {
				out, err = own(ctx, d)
				return err
			})
			return out, err
		}
	}
	if c.Transport != nil {
		c.Transport = guardedTransport{g, c.Transport}
	}
}

func guarded[T any](g guard, name string, own func(T) error) func(T) error {
	if own == nil {
		return nil
	}
	return func(v T) error { return g.call(name, func() error { return own(v) }) }
}

func told[T any](g guard, name string, own func(T)) func(T) {
	if own == nil {
		return nil
	}
	return func(v T) { _ = g.call(name, func() error { own(v); return nil }) } // call has logged it
}

// ownNetwork names a Transport and a Fetcher, which is one here, in logs.
const ownNetwork = "Transport or Fetcher"

type guardedTransport struct {
	g   guard
	own http.RoundTripper
}

// RoundTrip implements [http.RoundTripper].
func (t guardedTransport) RoundTrip(r *http.Request) (resp *http.Response, err error) {
	err = t.g.call(ownNetwork, func() (err error) {
		resp, err = t.own.RoundTrip(r) //nolint:bodyclose // whoever asked for it closes it
		return err
	})
	if resp != nil && resp.Body != nil && resp.Body != http.NoBody {
		resp.Body = guardedBody{resp.Body, t.g}
	}
	return resp, err
}

// guardedBody turns panics of a body into errors.
type guardedBody struct {
	io.ReadCloser
	g guard
}

func (b guardedBody) Read(p []byte) (n int, err error) {
	err = b.g.call(ownNetwork, func() (err error) {
		n, err = b.ReadCloser.Read(p)
		return err
	})
	return max(0, min(n, len(p))), err
}
