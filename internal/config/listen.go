package config

import (
	"errors"

	"github.com/treadlight/crawl/internal/observe/console"
)

func listenAddr(s string) error {
	if s == "" {
		return nil
	}
	_, err := console.ParseAddress(s)
	return err
}

func redactAll(s string) string {
	if s == "" {
		return s
	}
	return redacted
}

// checkListen checks that not everybody may steer the crawl. A token that was printed is
// no secret any more, and must not become one by being read back.
func (l *loader) checkListen() {
	const path, other = "listen.addr", "listen.token"
	at, token := l.cfg.Listen.Addr, l.cfg.Listen.Token
	if at == "" || l.bad[path] || l.bad[other] {
		return
	}
	a, err := console.ParseAddress(at)
	if err == nil {
		err = a.Check(token)
	}
	switch {
	case token == redacted:
		l.report(other, l.origins[other], "stands where a secret stood when it was printed; give the secret again")
	case errors.Is(err, console.ErrToken):
		l.report(other, l.origins[other], "%v", err)
	case err != nil:
		l.report(path, l.origins[path], "%v; the token is %s (CRAWL_LISTEN_TOKEN)", err, other)
	}
}
