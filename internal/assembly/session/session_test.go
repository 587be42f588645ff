package session

import (
	"context"
	"errors"
	"net/http"
	"net/http/cookiejar"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/fetch"
	"github.com/treadlight/crawl/internal/fetch/cookies"
	"github.com/treadlight/crawl/internal/web/canonical"
)

const form = `<form method=post action=/in><input name=user><input type=password name=secret_word></form>`

func url(t testing.TB, s string) canonical.URL {
	t.Helper()
	u, err := canonical.Parse(s)
	require.NoError(t, err)
	return u
}

type site struct {
	t     *testing.T
	jar   cookies.Keeper
	after string // the page behind the login
	fail  error
	sent  []string
}

func (s *site) send(_ context.Context, u canonical.URL, req fetch.Request) (*fetch.Response, error) {
	s.sent = append(s.sent, u.String()+" "+string(req.Payload))
	if s.fail != nil {
		return nil, s.fail
	}
	if req.Method == http.MethodPost {
		s.jar.Set(cookies.Origin{TLS: true, Host: "a.test", Path: "/"}, []string{"sid=token-of-the-session; Path=/"})
		return &fetch.Response{Status: 303, Location: "/home"}, nil
	}
	if u.Path() == "/home" {
		return &fetch.Response{Status: 200, ContentType: "text/html", Body: []byte(s.after)}, nil
	}
	return &fetch.Response{Status: 200, ContentType: "text/html", Body: []byte(form)}, nil
}

func begin(t *testing.T, text, saved string, save func(string)) (*Session, *site) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "login.yml")
	require.NoError(t, os.WriteFile(file, []byte("page: https://a.test/login\nuser: ann\npassword: ${P}\nsuccess: css:.out\n"+text), 0o644))
	login, err := Read(file, func(string) (string, bool) { return "pass", true })
	require.NoError(t, err)
	jar, err := cookies.New(cookies.Config{})
	require.NoError(t, err)
	s, err := New(Config{Login: login, Keeper: jar, Cookies: jar, Saved: saved, Save: save})
	require.NoError(t, err)
	return s, &site{t: t, jar: jar, after: "<a class=out>"}
}

func TestSession(t *testing.T) {
	var saved string
	s, web := begin(t, "", "", func(text string) { saved = text })
	n, err := s.Enter(t.Context(), url(t, "https://other.test/"), web.send)
	require.NoError(t, err)
	require.Zero(t, n, "of another site")
	n, err = s.Enter(t.Context(), url(t, "https://www.a.test/x"), web.send)
	require.NoError(t, err)
	require.EqualValues(t, 1, n)
	require.Equal(t, []string{"https://a.test/login ", "https://a.test/in user=ann&secret_word=pass", "https://a.test/home "}, web.sent)
	require.NotContains(t, saved, "token")

	page := func(body string) *fetch.Response {
		return &fetch.Response{Status: 200, ContentType: "text/html", Body: []byte(body)}
	}
	x := url(t, "https://a.test/x")
	require.False(t, s.Lost(x, n, page("fine")))
	require.False(t, s.Lost(x, n, page("<form><input type=password name=other></form>")), "another form")
	require.True(t, s.Lost(x, n, page(form)))
	require.True(t, s.Lost(url(t, "https://a.test/y"), n, &fetch.Response{Status: 401}), "found later")
	second, err := s.Enter(t.Context(), x, web.send)
	require.NoError(t, err)
	require.EqualValues(t, 2, second)
	require.False(t, s.Lost(x, second, page(form)), "in two sessions: the page is so")
	require.False(t, s.Lost(url(t, "https://a.test/login"), second, page(form)), "the page itself")
	require.True(t, s.Lost(url(t, "https://a.test/z"), second, &fetch.Response{Status: 302, Location: "/login?next=/z"}))

	again, web := begin(t, "", saved, nil)
	n, err = again.Enter(t.Context(), x, web.send)
	require.NoError(t, err)
	require.Empty(t, web.sent, "it goes on in the session that was kept")
	require.Equal(t, "sid=token-of-the-session", web.jar.Header(cookies.Origin{TLS: true, Host: "a.test", Path: "/"}))
	require.True(t, again.Lost(x, n, page(form)), "the form is known")
	for _, other := range []string{saved[:len(saved)-8] + "AAAAAAA=", "v1:", "v1:AAAA", "x"} {
		s, web := begin(t, "", other, nil)
		_, err = s.Enter(t.Context(), x, web.send)
		require.NoError(t, err)
		require.NotEmpty(t, web.sent)
	}
}

// The sign of a cookie is looked for in whatever jar there is, a program's own too.
func TestCookieSigns(t *testing.T) {
	own, err := cookiejar.New(nil)
	require.NoError(t, err)
	crawls, err := cookies.New(cookies.Config{})
	require.NoError(t, err)
	for _, jar := range []cookies.Keeper{cookies.Standard{Jar: own}, crawls} {
		for name, there := range map[string]bool{"sid": true, "other": false} {
			login := &Login{Page: url(t, "https://a.test/login"), User: "ann", Password: "pass", Success: []Sign{{text: "cookie:" + name, cookie: name}}}
			s, err := New(Config{Login: login, Keeper: jar})
			require.NoError(t, err)
			_, err = s.Enter(t.Context(), login.Page, (&site{t: t, jar: jar}).send)
			if there {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, "cookie:other does not hold")
			}
		}
	}
}

// What is wrong in a file is told once: it is not missing as well.
func TestFileTellsEachFaultOnce(t *testing.T) {
	for text, faults := range map[string][]string{
		"page: https://a.test/\nuser: me\npassword: ${NONE}\nsuccess: cookie:s": {"password: takes the variable NONE, which is not set"},
		"page: ftp://a.test/\nuser: me\npassword: x\nsuccess: none":             {"page: ", "success: "},
		"fields: {}\nsuccess: []":       {"page is missing", "what to fill in is missing", "success is missing"},
		"user: me\nsuccess: cookie:s\n": {"page is missing", "what to fill in is missing"},
	} {
		path := filepath.Join(t.TempDir(), "login.yml")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		_, err := Read(path, func(string) (string, bool) { return "", false })
		require.Error(t, err)
		lines := strings.Split(err.Error(), "\n")
		require.Len(t, lines, len(faults), err)
		for i, fault := range faults {
			require.Contains(t, lines[i], fault)
		}
	}
}

// A login that works and holds for no page ends the crawl, and so does one that fails; the end of a crawl is no failure.
func TestLoginsThatHelpNothing(t *testing.T) {
	s, web := begin(t, "lost: css:.wall\nevery_page: true\n", "", nil)
	ctx, stop := context.WithCancel(t.Context())
	stop()
	_, err := s.Enter(ctx, url(t, "https://a.test/x"), web.send)
	require.ErrorIs(t, err, context.Canceled)
	for _, path := range []string{"1", "2", "3", "4"} {
		u := url(t, "https://a.test/"+path)
		n, err := s.Enter(t.Context(), u, web.send)
		if path == "4" {
			require.ErrorContains(t, err, "no page is within the session after 3 logins that succeeded: https://a.test/3 shows css:.wall")
			break
		}
		require.NoError(t, err)
		require.True(t, s.Lost(u, n, &fetch.Response{Status: 200, ContentType: "text/html", Body: []byte("<p class=wall>")}))
	}
	s, web = begin(t, "", "", nil)
	web.fail = errors.New("no route")
	_, err = s.Enter(t.Context(), url(t, "https://a.test/x"), web.send)
	require.ErrorContains(t, err, "log in at https://a.test/login: no route")
	web.fail = nil
	_, err = s.Enter(t.Context(), url(t, "https://a.test/x"), web.send)
	require.Error(t, err, "it lasts")
}

func TestFormsThatGetNoSecret(t *testing.T) {
	s, _ := begin(t, "", "", nil)
	for page, want := range map[string]string{
		`<form action=/in><input name=user><input type=password name=p></form>`:                          "sent by GET",
		`<form method=post action=http://a.test/in><input name=user><input type=password name=p></form>`: "without encryption",
		`<form method=post action=//b.test/in><input name=user><input type=password name=p></form>`:      "another site, b.test",
		form + form:     "2 forms with a password",
		"<form></form>": "none of the 1 forms",
	} {
		err := s.login(t.Context(), func(_ context.Context, _ canonical.URL, req fetch.Request) (*fetch.Response, error) {
			require.Empty(t, req.Payload)
			return &fetch.Response{Status: 200, ContentType: "text/html", Body: []byte(page)}, nil
		})
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "pass ")
	}
}

func TestLogoutLinks(t *testing.T) {
	re := regexp.MustCompile(Logout)
	for _, u := range []string{"/logout", "/users/sign_out", "/signoff.php?x=1", "/index.php?action=logout", "/?do=logout", "/?logout=1", "/wp-login.php?action=logout&_wpnonce=1", "/index.php?title=Special:UserLogout&returnto=A", "/account/log-off/", "/user_logout", "/do_logout.do", "/sessions/destroy", "/de/abmelden"} {
		require.True(t, re.MatchString("https://a.test"+u), u)
	}
	for _, u := range []string{"/blog/how-to-log-out-of-a-site", "/logouts-of-the-year", "/catalogout", "/blogoff", "/docs/logout-api.html", "/signoffs/7", "/"} {
		require.False(t, re.MatchString("https://a.test"+u), u)
	}
}
