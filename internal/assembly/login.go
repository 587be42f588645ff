package assembly

import (
	"fmt"
	"os"

	"github.com/treadlight/crawl/internal/assembly/session"
	"github.com/treadlight/crawl/internal/fetch/cookies"
)

// metaSession is the key under which a state keeps the session, encrypted.
const metaSession = "session"

// openSession makes the session of a crawl whose settings have a login, or returns nil. avoid are the patterns of URLs
// that must not be followed within the session.
func openSession(c *Crawler) (s *session.Session, avoid []string, err error) {
	file := c.cfg.Access.Login()
	if file == "" {
		return nil, nil, nil
	}
	login, err := session.Read(file, os.LookupEnv)
	if err != nil {
		return nil, nil, fmt.Errorf("access.auth: %w", err)
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
