package console

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"
)

// maxBody is the longest order, in bytes: a URL of eight thousand, as long as servers take
// them, with room to spare.
const maxBody = 16 << 10

// The orders.
const (
	orderPause      = "pause"
	orderResume     = "resume"
	orderStop       = "stop"
	orderCheckpoint = "checkpoint"
	orderSeeds      = "seeds"
)

func orders() []string {
	return []string{orderPause, orderResume, orderStop, orderCheckpoint, orderSeeds}
}

// done is the answer to an order that was carried out.
type done struct {
	Order string `json:"order"`
	URL   string `json:"url,omitempty"` // of a seed, as the crawl spells it
}

// failure is an order that was not.
type failure struct {
	status int
	detail string
}

func (f *failure) Error() string { return f.detail }

// body is what an order may say.
type body struct {
	URL string `json:"url"` // of seeds
}

// order carries out an order, logs it and counts it.
func (c *Console) order(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("order")
	if !slices.Contains(orders(), name) {
		refuse(w, http.StatusNotFound, "there is no such order; there are "+strings.Join(orders(), ", "))
		return
	}
	said, err := readBody(w, r)
	url := ""
	if err == nil {
		// It is read, and a disk may take longer than clients may to write it.
		_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
		url, err = c.carryOut(r, name, said)
	}
	c.forget()
	attrs := []slog.Attr{slog.String("order", name), slog.String("who", r.RemoteAddr)}
	if said.URL != "" {
		attrs = append(attrs, slog.String("url", shortened(said.URL)))
	}
	if err != nil {
		c.metrics.orders.WithLabelValues(name, "failed").Inc()
		c.cfg.Log.LogAttrs(r.Context(), slog.LevelWarn, "an order could not be carried out", append(attrs, slog.Any("error", err))...)
		f, ok := errors.AsType[*failure](err)
		if !ok {
			f = &failure{http.StatusInternalServerError, err.Error()}
		}
		refuse(w, f.status, f.detail)
		return
	}
	c.metrics.orders.WithLabelValues(name, "done").Inc()
	c.cfg.Log.LogAttrs(r.Context(), slog.LevelInfo, "an order was carried out", attrs...)
	answer(w, http.StatusOK, done{Order: name, URL: url})
}

// carryOut does what an order says. Of seeds it returns the URL.
func (c *Console) carryOut(r *http.Request, name string, said body) (url string, err error) {
	there := true
	switch name {
	case orderPause:
		there = c.crawl.Pause()
	case orderResume:
		there = c.crawl.Resume()
	case orderStop:
		c.crawl.Stop()
	case orderCheckpoint:
		if c.crawl.Checkpoint == nil {
			return "", &failure{http.StatusConflict, "the crawl is not kept: begin it with --state to have checkpoints"}
		}
		return "", c.crawl.Checkpoint(r.Context())
	case orderSeeds:
		return c.seed(said.URL)
	}
	if !there {
		return "", &failure{http.StatusConflict, ErrGone.Error()}
	}
	return "", nil
}

func (c *Console) seed(url string) (string, error) {
	if url == "" {
		return "", &failure{http.StatusUnprocessableEntity, `the URL is missing: write {"url": "https://example.com/"}`}
	}
	spelled, err := c.crawl.AddSeed(url)
	switch {
	case errors.Is(err, ErrGone):
		return "", &failure{http.StatusConflict, err.Error()}
	case err != nil:
		return "", &failure{http.StatusUnprocessableEntity, err.Error()}
	}
	return spelled, nil
}

// readBody reads what an order says; nothing at all is well for those that need nothing.
func readBody(w http.ResponseWriter, r *http.Request) (said body, err error) {
	dec := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	dec.DisallowUnknownFields()
	err = dec.Decode(&said)
	if errors.Is(err, io.EOF) {
		return body{}, nil
	}
	if err == nil && !errors.Is(dec.Decode(new(json.RawMessage)), io.EOF) {
		err = errors.New("there is something behind the object")
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return body{}, &failure{http.StatusRequestEntityTooLarge, fmt.Sprintf("an order has %d bytes at most", maxBody)}
	}
	if err != nil {
		return body{}, &failure{http.StatusBadRequest, fmt.Sprintf("the body is no order (%v): write a JSON object", err)}
	}
	return said, nil
}

// isJSON reports whether a Content-Type is that of orders.
func isJSON(header string) bool {
	media, _, err := mime.ParseMediaType(header)
	return err == nil && media == "application/json"
}
