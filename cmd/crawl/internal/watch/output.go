package watch

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"html"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/gorilla/feeds"

	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/fetch/post"
	"github.com/treadlight/crawl/internal/store/atomicfile"
	"github.com/treadlight/crawl/internal/store/sqlitedb"
)

const (
	// MaxWaiting is how many changes may wait for an output. With more, nothing is visited until the output takes them.
	MaxWaiting = 100_000

	inFeed  = 100     // changes in an RSS file
	maxTail = 1 << 20 // bytes at the end of a file that hold its last change, of 400 KB at most
)

// output is a destination of changes. It has a position in the list of all changes, and receives them in order.
type output struct {
	name string // its key in the database
	at   int64  // the number of the last change that it has received
	wait int64  // of a webhook: nothing is sent before this time, in seconds since 1970

	// send sends changes, and returns how many of them were received. After a refusal the others are sent again; any
	// other error ends the watch.
	send func(ctx context.Context, list []numbered) (int, error)
}

// Stream adds an output that writes changes as lines of JSON.
func (w *Watch) Stream(to io.Writer) error { return w.attach(lines("stdout", "standard output", to)) }

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
func (w *Watch) Lines(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644) // others may append to the file too
	if err != nil {
		return cli.Open("--output", err)
	}
	w.closers = append(w.closers, f.Close)
	to := lines("file:"+path, "--output "+path, f)
	if err := w.attach(to); err != nil {
		return err
	}
	info, err := f.Stat()
	if err == nil && info.Mode().IsRegular() {
		to.at, err = w.lastIn(f, info.Size(), to.at)
	}
	if err != nil {
		return cli.Write("--output", err)
	}
	return w.save(to)
}

// lastIn returns the number of the last change in a file, or at, the last one known to be there, if that is greater: of
// one batch, the file may have what a killed process did not commit. A change is there only as a whole line: the file may
// have parts of changes, and, if the database is older than the file, changes whose numbers are given again. If the file
// ends with a part of a change, it cuts the part off. Lines that others have appended stay.
func (w *Watch) lastIn(f *os.File, size, at int64) (int64, error) {
	from := max(0, size-maxTail)
	tail, err := io.ReadAll(io.NewSectionReader(f, from, maxTail))
	if err != nil {
		return 0, err
	}
	ours := []byte(`{"id":"` + w.id + `-`)
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
	list, err := w.changesAfter(at)
	for _, c := range list {
		if there[c.text] {
			at = c.n
		}
	}
	return at, err
}

// Feed adds an output that keeps the last changes in an RSS file. The path is absolute, as for Lines.
func (w *Watch) Feed(path string) error {
	site := slices.MinFunc(slices.Collect(maps.Values(w.urls)), func(a, b *entry) int { // the first seed
		return cmp.Or(cmp.Compare(a.depth, b.depth), cmp.Compare(a.id, b.id))
	})
	to := &output{name: "rss:" + path}
	to.send = func(_ context.Context, list []numbered) (int, error) {
		last := to.at
		for _, c := range list {
			last = c.n
		}
		all, err := w.changesAfter(last - inFeed)
		if err == nil {
			err = atomicfile.Replace(path, 0o644, func(f io.Writer) error { return writeFeed(f, site, len(w.named) > 1, all) })
		}
		if err != nil {
			return 0, cli.Write("--rss", err)
		}
		return len(list), nil
	}
	err := w.attach(to)
	if _, none := os.Stat(path); none != nil && err == nil {
		_, err = to.send(context.Background(), nil)
	}
	return err
}

// writeFeed writes changes of a site, or of several that begin with it, as RSS, the last change first.
func writeFeed(to io.Writer, site *entry, several bool, list []numbered) error {
	feed := feeds.Feed{Title: "Changes of " + site.host.name, Link: &feeds.Link{Href: site.url}, Description: "What crawl watch has found"}
	if several {
		feed.Title += " and other hosts"
	}
	for _, one := range slices.Backward(list) {
		var c Change
		if err := json.Unmarshal([]byte(one.text), &c); err != nil {
			return err
		}
		item := &feeds.Item{Title: c.Change + ": " + cmp.Or(c.Title, c.URL), Link: &feeds.Link{Href: c.URL}, Created: c.Time, Id: c.ID, IsPermaLink: "false"}
		if text := cmp.Or(c.Diff, c.Text); text != "" {
			item.Description = "<pre>" + html.EscapeString(text) + "</pre>"
		}
		feed.Add(item)
	}
	return feed.WriteRss(to)
}

// attach adds an output and loads its position. A new output receives the changes from now on.
func (w *Watch) attach(to *output) error {
	w.outputs = append(w.outputs, to)
	to.at = w.store.newest()
	w.store.each(`SELECT change, wait FROM sinks WHERE name = ?`, func(q *sqlitedb.Stmt) error {
		to.at, to.wait = q.ColumnInt(0), q.ColumnInt(1)
		return nil
	}, to.name)
	return w.save(to)
}

// save records the position of an output.
func (w *Watch) save(to *output) error {
	w.store.run(`INSERT OR REPLACE INTO sinks VALUES (?, ?, ?)`, to.name, to.at, to.wait)
	return onDisk(w.store.failed())
}

// Waiting returns how many changes the slowest output has not received yet.
func (w *Watch) Waiting() (n int64) {
	for _, to := range w.outputs {
		n = max(n, w.store.newest()-to.at)
	}
	return n
}

// Send sends all outputs the changes that they have not received. A webhook that refuses them gets so many tries. What
// it has not taken then stays for the next Send, and refused says why. Any other error ends the watch. No round may run.
func (w *Watch) Send(ctx context.Context, tries int) (refused *post.Refusal, err error) {
	for _, to := range w.outputs {
		failed := w.drain(ctx, to)
		r, ok := errors.AsType[*post.Refusal](failed)
		for try := 1; ok && r.After == 0 && try < tries && clock.Sleep(ctx, clock.System(), w.retry<<(try-1)) == nil; try++ {
			failed = w.drain(ctx, to)
			r, ok = errors.AsType[*post.Refusal](failed)
		}
		if ok {
			refused = r
		} else {
			err = errors.Join(err, onDisk(failed))
		}
	}
	return refused, err
}

// drain sends an output all changes that it has not received. It removes those that all outputs have received, except
// the last ones, which a feed needs.
func (w *Watch) drain(ctx context.Context, to *output) error {
	for {
		list, err := w.changesAfter(to.at)
		if err != nil || len(list) == 0 {
			return err
		}
		now := clock.System().Now()
		// It may be from an earlier process. A wait that is too long means that the clock was set back.
		if wait := time.Unix(to.wait, 0).Sub(now); wait > 0 && wait <= maxRetryAfter {
			return &post.Refusal{Cause: errors.New("it has asked to be left alone"), After: wait}
		}
		n, failed := to.send(ctx, list)
		if refused, ok := errors.AsType[*post.Refusal](failed); ok && refused.After > 0 {
			to.wait = now.Add(refused.After).Unix()
		}
		if n > 0 {
			to.at = list[n-1].n
		}
		received := to.at
		for _, other := range w.outputs {
			received = min(received, other.at)
		}
		w.store.run(`DELETE FROM changes WHERE id <= ?`, received-inFeed)
		if err := cmp.Or(w.save(to), failed); err != nil {
			return err
		}
	}
}
