package cli

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/treadlight/crawl/internal/observe/endpoint"
)

// Serve serves pages at an address of this machine, which the flag named, until ctx ends. It calls listening with the
// URL. It refuses names of other hosts: otherwise any site could read the pages through a name of its own that resolves
// to this machine.
func Serve(ctx context.Context, flag, addr string, pages http.Handler, listening func(url string)) error {
	at, err := endpoint.ParseAddress(addr)
	if err != nil || at.Check("") != nil {
		return Usagef("--%s %q: give an address of this machine, such as 127.0.0.1:8080", flag, addr)
	}
	l, at, err := at.Listen()
	if err != nil {
		return IOf("open --%s: %w", flag, Cause(err))
	}
	server := &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !at.AnswersTo(r.Host) {
			http.Error(w, "this is not the host that was asked for", http.StatusMisdirectedRequest)
			return
		}
		pages.ServeHTTP(w, r)
	})}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	listening(at.URL())
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return IO(err)
	}
	return nil
}
