// Package read is `crawl read`: it requests single pages as politely as a crawl, and prints their main text as
// Markdown, in the order of the command line.
package read

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/cmd/crawl/internal/job"
	"github.com/treadlight/crawl/internal/records/chunk"
	"github.com/treadlight/crawl/internal/web/maintext"
)

// Config says what to read, and how to print it.
type Config struct {
	URLs        []string
	Options     crawl.Options
	JSON, Plain bool
	Tokens      int // most tokens of a chunk; zero means no chunks
	Out         io.Writer
	Term        *cli.Terminal
}

// page is a page that was read, as JSON has it.
type page struct {
	URL       string     `json:"url"`
	Title     string     `json:"title,omitempty"`
	Byline    string     `json:"byline,omitempty"`
	Published *time.Time `json:"published,omitempty"`
	Lang      string     `json:"lang,omitempty"`
	Markdown  string     `json:"markdown,omitempty"`
	MainText  string     `json:"main_text,omitempty"`

	broken bool // the response broke off, and this is its beginning
}

// reading is a run. Pages are printed in the order of the command line, in whatever order they come.
type reading struct {
	*Config
	mu      sync.Mutex
	results []result // of the URLs, by their place on the command line
	settled int      // results that are printed, or whose error is told
	err     error    // of the first page that was not read, or only in part
	broken  error    // a page could not be printed
}

// result is what became of a URL. It is zero until its response came, or that of what it leads to.
type result struct {
	page  *page
	err   error  // why there is no page
	leads string // where a redirect leads to
}

// atKey is the key in the metadata of a request of its URL's place on the command line.
const atKey = "at"

// Run reads and prints all pages, with one crawl. It reports pages that could not be read, that have no text or whose
// response broke off, and returns an error for the first of them.
func Run(ctx context.Context, cfg Config) error {
	if cfg.Tokens != 0 && cfg.Tokens < chunk.MinTokens {
		return cli.Usagef("--chunk %d: chunks have at least %d tokens; %d is usual", cfg.Tokens, chunk.MinTokens, chunk.DefaultTokens)
	}
	r := &reading{Config: &cfg, results: make([]result, len(cfg.URLs))}
	o := cfg.Options
	o.OnPage = r.take
	c, err := crawl.New(o)
	if err != nil {
		return cli.Usage(err)
	}
	for i, at := range cfg.URLs {
		place := strconv.Itoa(i)
		if err := c.AddSeed(at, crawl.WithMeta(atKey, place), crawl.WithAgain(place)); err != nil {
			return errors.Join(cli.Usage(err), c.Close())
		}
	}
	err = job.Supervise(ctx, cfg.Term, slog.New(slog.DiscardHandler), 0, c, func(ctx context.Context) error { return c.Run(ctx) })
	unreachable := errors.Is(err, crawl.ErrUnreachable)
	switch {
	case r.broken != nil:
		return r.broken
	case err != nil && !unreachable:
		return cli.IO(err)
	case c.Snapshot().State == "interrupted":
		cli.Say(cfg.Term, "interrupted: %d of %s printed\n", r.settled, cli.Plural(len(cfg.URLs), "page"))
		return &cli.Error{Code: cli.CodeInterrupted}
	}
	for i := r.settled; i < len(r.results); i++ {
		switch x := &r.results[i]; {
		case errors.Is(err, errAbsent): // nobody was to be reached
			x.err = errAbsent
		case unreachable && len(r.results) == 1:
			x.err = err
		case x.page != nil || x.err != nil:
		case x.leads != "":
			x.err = fmt.Errorf("it leads to %s, which was not asked for", x.leads)
		default:
			x.err = errors.New("it was not asked for")
		}
	}
	if e := r.settle(); e != nil {
		return e
	}
	if errors.Is(err, errAbsent) {
		return r.err // an archive was read, and no site
	}
	return cli.Advise(r.err, cli.AdviceOf(err))
}

// take takes in a page of the crawl, and prints what can be printed.
func (r *reading) take(_ context.Context, found *crawl.Page) error {
	i, err := strconv.Atoi(found.Meta(atKey))
	if err != nil || found.Kind != "page" {
		return nil
	}
	x := result{leads: found.RedirectTo}
	if x.leads == "" {
		x.page, x.err = r.judge(found)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.results[i] = x
	if len(r.results) == 1 && x.err != nil {
		return nil // the crawl says better why nothing answered
	}
	if r.broken = r.settle(); r.broken != nil {
		return crawl.ErrStop
	}
	return nil
}

// settle prints the results behind those that are settled, up to the first that is not there yet.
func (r *reading) settle() error {
	for ; r.settled < len(r.results); r.settled++ {
		at, x := r.URLs[r.settled], &r.results[r.settled]
		switch {
		case x.err != nil:
			cli.Say(r.Term, "%s: %v\n", at, x.err)
			r.err = cmp.Or[error](r.err, &cli.Error{Code: cli.CodeOf(cli.ErrNothing), Err: fmt.Errorf("%s was not read", at)})
			continue
		case x.page == nil:
			return nil
		}
		if err := r.print(x.page, r.settled > 0); err != nil {
			return err
		}
		if x.page.broken {
			r.err = cmp.Or[error](r.err, &cli.Error{Code: cli.CodeLimit, Err: fmt.Errorf("%s was read in part", at)})
		}
		x.page = nil
	}
	return nil
}

// judge returns the page that a response has, or why it has none.
func (r *reading) judge(found *crawl.Page) (*page, error) {
	var e *crawl.PageError
	partly := errors.As(found.Err, &e) && found.Truncated && len(found.Body) > 0
	tooLarge := partly && e.Class == "too_large"
	switch {
	case found.Err != nil && !partly:
		return nil, found.Err
	case found.Status/100 != 2:
		return nil, fmt.Errorf("status %d", found.Status)
	case tooLarge:
		cli.Say(r.Term, "%s: only the beginning is read: a body may have fetch.max_body bytes\n", found.URL)
	case partly:
		cli.Say(r.Term, "%s: only the beginning is read: the response broke off (%v); try again later for the rest\n", found.URL, found.Err)
	}
	p, err := r.text(found)
	if p != nil {
		p.broken = partly && !tooLarge
	}
	return p, err
}

func (cfg *Config) text(found *crawl.Page) (*page, error) {
	p := &page{URL: found.URL.String(), Title: found.Title(), Byline: found.Byline(), Lang: found.Lang()}
	if t := found.Published(); !t.IsZero() {
		p.Published = &t
	}
	text, err := found.Markdown()
	if err != nil {
		return nil, err
	}
	if text == "" && len(found.Body) > 4<<20 { // no more becomes its tree
		return nil, errors.New("its first 4 MiB, which are what is read of a page, have no text")
	}
	if text == "" && found.ContentType != "" && !strings.Contains(found.ContentType, "html") {
		return nil, fmt.Errorf("it is %s, of which no text is read; 'crawl mirror --keep %s -o DIR URL' downloads such files",
			found.ContentType, cli.ShellWord(found.ContentType))
	}
	if text == "" {
		return nil, errors.New("it has no text: it may be empty without its scripts (try --render auto), or no HTML")
	}
	if p.Title, p.Markdown = maintext.Title(p.Title, text), text; cfg.Plain {
		p.Markdown = ""
		p.MainText, err = found.MainText()
	}
	return p, err
}

// print prints a page; behind says whether another one was printed before it.
func (cfg *Config) print(p *page, behind bool) error {
	var b bytes.Buffer
	switch {
	case cfg.Tokens > 0:
		chunks := chunk.Split(cmp.Or(p.Markdown, p.MainText), p.URL, cfg.Tokens)
		for i := range chunks { // there is no file, and no head of it with the title
			chunks[i].File, chunks[i].Title = "", p.Title
		}
		b.Write(chunk.AppendLines(nil, chunks))
	case cfg.JSON:
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		if err := e.Encode(p); err != nil {
			return err
		}
	default:
		if behind {
			b.WriteString("\n---\n\n")
		}
		text := strings.TrimRight(cmp.Or(p.Markdown, p.MainText), "\n")
		first, rest, _ := strings.Cut(text, "\n")
		if by := p.by(); by != "" && !cfg.Plain && strings.HasPrefix(first, "# ") {
			text = first + "\n\n*" + by + "*\n" + rest
		}
		b.WriteString(cli.Clean(strings.ReplaceAll(text, "\t", "    ")))
		b.WriteByte('\n')
	}
	_, err := cfg.Out.Write(b.Bytes())
	return cli.Output(err)
}

// by returns the author and the date of the page, as far as they are known.
func (p *page) by() string {
	var parts []string
	if p.Byline != "" {
		parts = append(parts, strings.NewReplacer("*", "", "_", "").Replace(p.Byline))
	}
	if p.Published != nil {
		parts = append(parts, p.Published.Format(time.DateOnly))
	}
	return strings.Join(parts, " · ")
}
