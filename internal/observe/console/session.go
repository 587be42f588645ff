package console

import (
	"crypto/rand"
	"crypto/sha256"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/treadlight/crawl/internal/clock"
)

const (
	// maxSessions is how many browsers may be logged in; the oldest goes for one more.
	maxSessions = 64
	// sessionTime is how long a login holds: a long day's.
	sessionTime = 12 * time.Hour
)

// sessions are the browsers that have shown the token. They hold a number drawn for each and
// not the token: a browser sends the cookies of this address to every port of it, to whatever
// else answers there.
type sessions struct {
	clk  clock.Clock
	name string // of the cookie

	mu   sync.Mutex                      // guards what follows
	ends map[[sha256.Size]byte]time.Time // by digest, so that looking one up tells nothing by its time; at most maxSessions
}

// newSessions are none yet. The cookie is named for the port, because two crawls on one
// computer share what a browser keeps for it.
func newSessions(clk clock.Clock, at Address) *sessions {
	return &sessions{
		clk: clk, name: "treadlight_" + strconv.Itoa(int(at.at.Port())),
		ends: make(map[[sha256.Size]byte]time.Time),
	}
}

// open begins a session and returns its number.
func (s *sessions) open() string {
	id := rand.Text()
	now := s.clk.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	var oldest [sha256.Size]byte
	first := now.Add(2 * sessionTime)
	for digest, end := range s.ends {
		if !now.Before(end) {
			delete(s.ends, digest)
		} else if end.Before(first) {
			oldest, first = digest, end
		}
	}
	if len(s.ends) >= maxSessions {
		delete(s.ends, oldest)
	}
	s.ends[sha256.Sum256([]byte(id))] = now.Add(sessionTime)
	return id
}

// knows reports whether a request is of a session.
func (s *sessions) knows(r *http.Request) bool {
	c, err := r.Cookie(s.name)
	if err != nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	end, ok := s.ends[sha256.Sum256([]byte(c.Value))]
	return ok && s.clk.Now().Before(end)
}

// allows reports whether the session of a request may do what it asks for. A cookie comes
// along with whatever a browser sends here, so it counts for an order only where the browser
// says that a page of ours gave it.
func (s *sessions) allows(r *http.Request) bool {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		switch r.Header.Get("Sec-Fetch-Site") {
		case "same-origin":
		case "": // a browser that does not say so here; the door has compared its Origin
			if r.Header.Get("Origin") == "" {
				return false
			}
		default:
			return false
		}
	}
	return s.knows(r)
}

// close ends the session of a request.
func (s *sessions) close(r *http.Request) {
	if c, err := r.Cookie(s.name); err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.ends, sha256.Sum256([]byte(c.Value)))
	}
}

// cookie carries a session; of an empty one it has the browser forget it. It is for TLS alone
// where a proxy speaks that, which the page's own address tells.
func (s *sessions) cookie(r *http.Request, id string) *http.Cookie {
	c := &http.Cookie{
		Name: s.name, Value: id, Path: "/", MaxAge: int(sessionTime / time.Second),
		HttpOnly: true, SameSite: http.SameSiteStrictMode,
		Secure: strings.HasPrefix(r.Header.Get("Origin"), "https://"),
	}
	if id == "" {
		c.MaxAge = -1
	}
	return c
}

// The paths of the pages that need no token, and of those that send who has none to log in.
const (
	loginPath  = "/login"
	logoutPath = "/logout"
	assetsPath = "/assets/"
	hostsPath  = "/hosts/"
)

// isOpen reports whether a path says nothing of the crawl.
func isOpen(path string) bool {
	return isHealth(path) || path == loginPath || path == logoutPath || strings.HasPrefix(path, assetsPath)
}

// isLogin reports whether a request shows a token in its body, so that it costs what a wrong
// one does: its headers do not tell which it is.
func isLogin(r *http.Request) bool { return r.Method == http.MethodPost && r.URL.Path == loginPath }

// wantsPage reports whether a person without a token asks for a page, which is no guess.
func wantsPage(r *http.Request) bool {
	return (r.Method == http.MethodGet || r.Method == http.MethodHead) && r.Header.Get("Authorization") == "" &&
		(r.URL.Path == "/" || strings.HasPrefix(r.URL.Path, hostsPath))
}

// isForm reports whether a request may be written as a form of a page writes it.
func isForm(r *http.Request) bool {
	return (r.URL.Path == loginPath || r.URL.Path == logoutPath) && isMedia(r.Header.Get("Content-Type"), "application/x-www-form-urlencoded")
}
