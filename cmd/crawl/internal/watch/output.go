package watch

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"html"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/feeds"

	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/store/atomicfile"
	"github.com/treadlight/crawl/internal/store/sqlitedb"
)

const (
	inFeed     = 100         // changes in an RSS file
	maxTail    = 1 << 20     // bytes at the end of a file that hold its last change, of 400 KB at most
	tellEvery  = time.Second // how often outputs look for new changes
	firstRetry = time.Second // pause before the second of the final tries; it doubles each time
	lastRetry  = 10 * time.Minute
	finalTries = 3 // tries of a webhook before the watch ends and leaves changes for the next run

	hurriedTimeout = 10 * time.Second // of the only try after an interrupt
)

// output is a destination of changes. It has a position in the list of all changes, and receives them in order.
type output struct {
	name string // its key in the database
	at   int64  // the number of the last change that it has received
	wait int64  // of a webhook: nothing is sent before this time, in seconds since 1970

	// send sends changes, and returns how many of them were received. After a refusal the others are sent again; any
	// other error ends the watch.
	send func(ctx context.Context, list []numbered) (int, error)
	hook bool // it is a webhook
}

// Outputs are all outputs of a watch.
type Outputs struct {
	w       *Watch
	outputs []*output
	retry   time.Duration // the pause before the second of the final tries
}

// Stream adds an output that writes changes as lines of JSON.
func (o *Outputs) Stream(w io.Writer) error { return o.add(lines("stdout", "standard output", w)) }

// lines returns an output that writes whole lines of JSON.
func lines(key, name string, to io.Writer) *output {
	return &output{name: key, send: func(_ context.Context, list []numbered) (int, error) {
		var b bytes.Buffer
		for _, c := range list {
			b.WriteString(c.text + "\n")
		}
		_, err := to.Write(b.Bytes())
		if f, ok := to.(*os.File); ok && err == nil {
			if info, e := f.Stat(); e == nil && info.Mode().IsRegular() { // a pipe or a device has no disk
				err = f.Sync()
			}
		}
		if err != nil {
			return 0, cli.Write(name, err)
		}
		return len(list), nil
	}}
}

// Lines adds an output that adds changes to a file as lines of JSON. The path is absolute, as the state knows the file by
// it.
func (o *Outputs) Lines(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644) // others may append to the file too
	if err != nil {
		return cli.Open("--output", err)
	}
	o.w.closers = append(o.w.closers, f.Close)
	to := lines("file:"+path, "--output "+path, f)
	if err := o.add(to); err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return cli.Open("--output", err)
	}
	if !info.Mode().IsRegular() {
		return nil
	}
	if to.at, err = o.lastIn(f, info.Size(), to.at); err != nil {
		return cli.Write("--output", err)
	}
	return o.save(to)
}

// lastIn returns the number of the last change in a file, or at, the last one known to be there, if that is greater: of
// one batch, the file may have what a killed process did not commit. A change is there only as a whole line: the file may
// have parts of changes, and, if the database is older than the file, changes whose numbers are given again. If the file
// ends with a part of a change, it cuts the part off. Lines that others have appended stay.
func (o *Outputs) lastIn(f *os.File, size, at int64) (int64, error) {
	from := max(0, size-maxTail)
	tail, err := io.ReadAll(io.NewSectionReader(f, from, maxTail))
	if err != nil {
		return 0, err
	}
	ours := []byte(`{"id":"` + o.w.id + `-`)
	end := bytes.LastIndexByte(tail, '\n') + 1
	switch rest := tail[end:]; {
	case len(rest) == 0:
	case bytes.HasPrefix(rest, ours) || bytes.HasPrefix(ours, rest):
		err = f.Truncate(from + int64(end))
	default:
		_, err = f.WriteString("\n")
	}
	if err != nil {
		return at, err
	}
	there := setOf(strings.Split(string(tail[:end]), "\n"))
	list, err := o.next(at)
	for _, c := range list {
		if there[c.text] {
			at = c.n
		}
	}
	return at, err
}

// next returns the changes after number at that are sent in one batch.
func (o *Outputs) next(at int64) ([]numbered, error) {
	o.w.mu.Lock()
	defer o.w.mu.Unlock()
	return o.w.store.changesAfter(at, inFeed), o.w.store.failed()
}

// Feed adds an output that keeps the last changes in an RSS file. The path is absolute, as for Lines.
func (o *Outputs) Feed(path string) error {
	dir, err := filepath.Abs(o.w.o.Dir)
	if err != nil {
		return cli.Open("--rss", err)
	}
	put := func(list []numbered) error {
		if err := atomicfile.Replace(path, 0o644, func(w io.Writer) error { return writeFeed(w, filepath.Base(dir), list) }); err != nil {
			return cli.Write("--rss", err)
		}
		return nil
	}
	err = o.add(&output{name: "rss:" + path, send: func(_ context.Context, list []numbered) (int, error) {
		all, err := o.next(list[len(list)-1].n - inFeed)
		if err == nil {
			err = put(all)
		}
		return len(list), err
	}})
	if _, none := os.Stat(path); none != nil && err == nil {
		err = put(nil)
	}
	return err
}

// writeFeed writes changes as RSS, the last one first.
func writeFeed(w io.Writer, name string, list []numbered) error {
	feed := feeds.Feed{Title: "Changes of " + name, Link: &feeds.Link{}, Description: "What crawl watch has found"}
	for _, one := range slices.Backward(list) {
		var c Change
		if err := json.Unmarshal([]byte(one.text), &c); err != nil {
			return err
		}
		item := &feeds.Item{Title: c.Change + ": " + cmp.Or(c.Title, c.URL), Link: &feeds.Link{Href: c.URL}, Created: c.Time, Id: c.ID, IsPermaLink: "false"}
		if c.Diff != "" {
			item.Description = "<pre>" + html.EscapeString(c.Diff) + "</pre>"
		}
		feed.Link.Href = cmp.Or(feed.Link.Href, c.URL)
		feed.Add(item)
	}
	return feed.WriteRss(w)
}

// NewOutputs returns an empty Outputs of the watch.
func (w *Watch) NewOutputs() *Outputs {
	return &Outputs{w: w, retry: firstRetry}
}

// add adds an output and loads its position. A new output receives the changes from now on.
func (o *Outputs) add(to *output) error {
	o.w.mu.Lock()
	o.outputs = append(o.outputs, to)
	to.at = o.w.store.newest()
	o.w.store.each(`SELECT change, wait FROM sinks WHERE name = ?`, func(q *sqlitedb.Stmt) error {
		to.at, to.wait = q.ColumnInt(0), q.ColumnInt(1)
		return nil
	}, to.name)
	o.w.mu.Unlock()
	return o.save(to)
}

// save records the position of an output.
func (o *Outputs) save(to *output) error {
	o.w.mu.Lock()
	defer o.w.mu.Unlock()
	o.w.store.run(`INSERT OR REPLACE INTO sinks VALUES (?, ?, ?)`, to.name, to.at, to.wait)
	return onDisk(o.w.store.failed())
}

// drain sends an output all changes that it has not received. It removes those that all outputs have received, except
// the last ones, which a feed needs.
func (o *Outputs) drain(ctx context.Context, to *output) error {
	for {
		list, err := o.next(to.at)
		if err != nil || len(list) == 0 {
			return err
		}
		if wait := time.Unix(to.wait, 0).Sub(clock.System().Now()); wait > 0 { // by a Retry-After, perhaps to an earlier process
			return &refusal{errors.New("it has asked to be left alone"), wait}
		}
		n, failed := to.send(ctx, list)
		if refused, ok := errors.AsType[*refusal](failed); ok && refused.after > 0 {
			to.wait = clock.System().Now().Add(refused.after).Unix()
		}
		o.w.mu.Lock()
		if n > 0 {
			to.at = list[n-1].n
		}
		received := to.at
		for _, other := range o.outputs {
			received = min(received, other.at)
		}
		o.w.store.run(`DELETE FROM changes WHERE id <= ?`, received-inFeed)
		o.w.mu.Unlock()
		if err := o.save(to); err != nil {
			return err
		}
		if failed != nil {
			return failed
		}
	}
}

// Waiting returns how many changes the slowest output has not received yet.
func (o *Outputs) Waiting() int64 { return o.waiting(o.outputs...) }

func (o *Outputs) waiting(of ...*output) (n int64) {
	o.w.mu.Lock()
	defer o.w.mu.Unlock()
	for _, to := range of {
		n = max(n, o.w.store.newest()-to.at)
	}
	return n
}

// Run sends changes to all outputs as they come, until ctx ends, and then those that are left. A webhook that fails
// then gets a few more tries; only one, with a short timeout, if the cause of the end is an interrupt; and none if that
// was forced. It returns an error if an output has not received all changes.
func (o *Outputs) Run(ctx context.Context, log *slog.Logger) error {
	errs := make([]error, len(o.outputs))
	var all sync.WaitGroup
	for i, to := range o.outputs {
		all.Go(func() { errs[i] = o.serve(ctx, to, log) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// serve does for one output what Run does for all.
func (o *Outputs) serve(ctx context.Context, to *output, log *slog.Logger) error {
	for pause := tellEvery; clock.Sleep(ctx, clock.System(), pause) == nil; {
		err := o.drain(ctx, to)
		refused, ok := errors.AsType[*refusal](err)
		switch {
		case err == nil:
			pause = tellEvery
		case !ok: // the disk has failed, not the webhook
			o.w.mu.Lock()
			defer o.w.mu.Unlock()
			_ = o.w.fail(err)
			return o.w.failed
		case ctx.Err() == nil:
			pause = max(min(2*pause, lastRetry), refused.after)
			log.Warn("the webhook does not take changes; they are kept and sent again", slog.Any("error", err), slog.Duration("again_in", pause))
		}
	}
	return o.last(context.Cause(ctx), to, log)
}

// last sends an output the changes that are left when the watch ends because of cause.
func (o *Outputs) last(cause error, to *output, log *slog.Logger) (err error) {
	tries, timeout := finalTries, finalTries*hookTimeout
	switch n, code := o.waiting(to), cli.CodeOf(cause); {
	case !to.hook || n == 0 || cause == context.Canceled: //nolint:errorlint // which is no cause of ours
	case code == cli.CodeForced:
		tries, err = 0, cause
	case code == cli.CodeInterrupted:
		tries, timeout = 1, hurriedTimeout
		log.Warn("sending changes to the webhook; interrupt again to leave them for the next run", slog.Int64("changes", n))
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	for try := range tries {
		err = o.drain(ctx, to)
		if refused, ok := errors.AsType[*refusal](err); !ok {
			return onDisk(err)
		} else if refused.after > 0 {
			break
		}
		if try < tries-1 && clock.Sleep(ctx, clock.System(), o.retry<<try) != nil {
			break
		}
	}
	return cli.IOf("%s wait for the webhook, and the next run sends them: %w", cli.Plural(o.waiting(to), "change"), err)
}
