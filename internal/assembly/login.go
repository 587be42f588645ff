package assembly

import (
	"errors"
	"fmt"
	"os"

	"github.com/treadlight/crawl/internal/assembly/session"
	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/fetch/cookies"
)

// ErrLogin is the error of a crawl that could not log in.
var ErrLogin = session.ErrFailed

// Read is what the files and variables say that the section access of the settings names. It is for one crawl.
type Read struct {
	id    *identity
	login *session.Login // nil means none
}

// ReadAccess reads the files and variables that the section access names. The error joins all that is wrong, each by
// the path of its setting, and contains no secret.
func ReadAccess(s *Settings) (*Read, error) { return readAccess(&Config{Settings: *s}) }

func readAccess(cfg *Config) (*Read, error) {
	id, err := identify(cfg, clock.System(), os.LookupEnv)
	r := &Read{id: id}
	if file := cfg.Access.Login(); file != "" {
		var wrong error
		if r.login, wrong = session.Read(file, os.LookupEnv); wrong != nil {
			err = errors.Join(err, fmt.Errorf("access.auth: %w", wrong))
		}
	}
	return r, err
}

// Unused returns the hosts of the credentials of access.auth that no request was sent to.
func (r *Read) Unused() []string {
	if r == nil {
		return nil
	}
	return r.id.table.Unused()
}

// metaSession is the key under which a state keeps the session, encrypted.
const metaSession = "session"

// openSession makes the session of a crawl whose settings have a login, or returns nil. avoid are the patterns of URLs
// that must not be followed within the session.
func openSession(c *Crawler) (s *session.Session, avoid []string, err error) {
	login := c.cfg.Read.login
	if login == nil {
		return nil, nil, nil
	}
	cfg := session.Config{Login: login, Keeper: c.id.jar, Log: c.log}
	cfg.Cookies, _ = c.id.jar.(*cookies.Jar) // if a program keeps the cookies, they are not saved here
	if state := c.state; state != nil {
		cfg.Saved = state.store.Meta(metaSession)
		cfg.Save = func(text string) { state.store.SetMeta(metaSession, text) }
	}
	if s, err = session.New(cfg); err != nil {
		return nil, nil, err
	}
	avoid = []string{session.Logout}
	for _, re := range login.Avoid {
		avoid = append(avoid, re.String())
	}
	return s, avoid, nil
}
