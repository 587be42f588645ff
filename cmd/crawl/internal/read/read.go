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
	"strings"
	"time"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/cmd/crawl/internal/job"
	"github.com/treadlight/crawl/internal/records/chunk"
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

// Run reads and prints all pages. It reports pages that could not be read, that have no text or whose response broke
// off, and returns an error for the first of them.
func Run(ctx context.Context, cfg Config) error {
	if cfg.Tokens != 0 && cfg.Tokens < chunk.MinTokens {
		return cli.Usagef("--chunk %d: chunks have at least %d tokens; %d is usual", cfg.Tokens, chunk.MinTokens, chunk.DefaultTokens)
	}
	var failed error
	for i, at := range cfg.URLs {
		p, err := cfg.read(ctx, at)
		if err == nil {
			err = cfg.print(p, i > 0)
			if err == nil && p.broken {
				failed = cmp.Or[error](failed, &cli.Error{Code: cli.CodeLimit, Err: fmt.Errorf("%s was read in part", at)})
			}
		}
		var broken *cli.Error
		switch {
		case errors.As(err, &broken):
			return err
		case err != nil:
			cli.Say(cfg.Term, "%s: %v\n", at, err)
			failed = cmp.Or[error](failed, &cli.Error{Code: cli.CodeOf(cli.ErrNothing), Err: fmt.Errorf("%s was not read", at)})
		}
	}
	return failed
}

// read requests one page and follows its redirects.
func (cfg *Config) read(ctx context.Context, at string) (p *page, err error) {
	o := cfg.Options
	failure := errors.New("it was not asked for")
	o.OnPage = func(_ context.Context, found *crawl.Page) error {
		var e *crawl.PageError
		partly := errors.As(found.Err, &e) && found.Truncated && len(found.Body) > 0
		tooLarge := partly && e.Class == "too_large"
		switch {
		case found.Kind != "page":
		case found.Err != nil && !partly:
			failure = found.Err
		case found.RedirectTo != "":
			failure = fmt.Errorf("it leads to %s, which was not asked for", found.RedirectTo)
		case found.Status/100 != 2:
			failure = fmt.Errorf("status %d", found.Status)
		default:
			switch {
			case tooLarge:
				cli.Say(cfg.Term, "%s: only the beginning is read: a body may have fetch.max_body bytes\n", at)
			case partly:
				cli.Say(cfg.Term, "%s: only the beginning is read: the response broke off (%v); try again later for the rest\n", at, found.Err)
			}
			if p, failure = cfg.take(found); p != nil {
				p.broken = partly && !tooLarge
			}
		}
		return nil
	}
	c, err := crawl.New(o)
	if err != nil {
		return nil, cli.Usage(err)
	}
	err = job.Supervise(ctx, cfg.Term, slog.New(slog.DiscardHandler), 0, c, func(ctx context.Context) error { return c.Run(ctx, at) })
	if errors.Is(err, crawl.ErrUnreachable) {
		return nil, err
	}
	if err != nil {
		return nil, cli.IO(err)
	}
	if p == nil {
		return nil, failure
	}
	return p, nil
}

func (cfg *Config) take(found *crawl.Page) (*page, error) {
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
	if text == "" {
		return nil, errors.New("it has no text: it may be empty without its scripts (try --render auto), or no HTML")
	}
	if heading, _, _ := strings.Cut(text, "\n"); strings.HasPrefix(heading, "# ") {
		p.Title = cmp.Or(p.Title, heading[2:])
	}
	if p.Markdown = text; cfg.Plain {
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
		b.Write(chunk.AppendLines(nil, chunk.Split(cmp.Or(p.Markdown, p.MainText), p.URL, cfg.Tokens)))
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
