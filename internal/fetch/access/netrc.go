package access

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/treadlight/crawl/internal/lazy"
	"github.com/treadlight/crawl/internal/ratelimit"
)

const mostNetrc = 1 << 20

// ParseNetrc parses a netrc file as ftp, curl and wget do: machine NAME login USER password SECRET. It skips macros,
// accounts, and the default entry, which would send a secret to every host. The error names the line, and no secret.
func ParseNetrc(r io.Reader) ([]Login, error) {
	data, err := io.ReadAll(io.LimitReader(r, mostNetrc+1))
	if err != nil {
		return nil, err
	}
	if len(data) > mostNetrc {
		return nil, fmt.Errorf("it is larger than %d bytes: is it a netrc file?", mostNetrc)
	}
	p := &netrc{rest: string(data), line: 1}
	for {
		word, ok, err := p.next()
		if err == nil && ok {
			err = p.keyword(word)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", p.line, err)
		}
		if !ok {
			return p.logins, p.finish()
		}
	}
}

type netrc struct {
	rest   string
	line   int
	logins []Login

	machine, user, secret string
	open, any             bool // open: in an entry; any: it is the default entry
}

var errQuote = errors.New(`a " has no end on its line`)

var (
	netrcWord = lazy.Regexp(`^(?:"((?:[^"\\\n]|\\[^\n])*)"|[^"\s]\S*)`)
	escaped   = lazy.Regexp(`\\(.)`)
)

func (p *netrc) next() (word string, ok bool, err error) {
	if p.skip(); p.rest == "" {
		return "", false, nil
	}
	found := netrcWord().FindStringSubmatch(p.rest)
	if found == nil {
		return "", false, errQuote
	}
	p.rest = p.rest[len(found[0]):]
	if found[0][0] == '"' {
		return escaped().ReplaceAllString(found[1], "$1"), true, nil
	}
	return found[0], true, nil
}

func (p *netrc) skip() {
	trimmed := strings.TrimLeft(p.rest, " \t\r\n")
	p.line += strings.Count(p.rest[:len(p.rest)-len(trimmed)], "\n")
	p.rest = trimmed
}

func (p *netrc) keyword(word string) error {
	switch {
	case strings.HasPrefix(word, "#"):
		p.drop("\n")
		return nil
	case word == "macdef":
		p.drop("\n\n") // a macro ends with an empty line
		return nil
	case word == "default":
		err := p.finish()
		p.open, p.any = true, true
		return err
	}
	to := map[string]*string{"machine": new(string), "login": &p.user, "password": &p.secret, "account": new(string)}[word]
	if to == nil {
		return errors.New("a word is none of machine, login, password, account, macdef and default: is it a netrc file?")
	}
	value, ok, err := p.next()
	if err != nil {
		return err
	}
	if !ok {
		return fmt.Errorf("%s has no value", word)
	}
	if word == "machine" {
		if err := p.finish(); err != nil {
			return err
		}
		p.machine, p.open = strings.ToLower(value), true
		return nil
	}
	if !p.open {
		return fmt.Errorf("%s comes before any machine", word)
	}
	*to = value
	return nil
}

func (p *netrc) drop(end string) {
	i := strings.Index(p.rest, end)
	if i < 0 {
		p.rest = ""
		return
	}
	p.line += strings.Count(p.rest[:i+len(end)], "\n")
	p.rest = p.rest[i+len(end):]
}

// finish ends the current machine. One without a login is ignored.
func (p *netrc) finish() error {
	machine, pair, usable := p.machine, p.user+":"+p.secret, p.open && !p.any && p.user != ""
	p.machine, p.user, p.secret, p.open, p.any = "", "", "", false, false
	if !usable {
		return nil
	}
	if !add(new(ratelimit.Patterns), machine, 0) {
		return fmt.Errorf("machine %q is no host; write one such as example.com", machine)
	}
	value, err := login(pair)
	if err != nil {
		return fmt.Errorf("machine %s: its login with its password %w", machine, err)
	}
	p.logins = append(p.logins, Login{Match: machine, Authorization: value})
	return nil
}
