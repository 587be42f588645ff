package docs_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/lab/docpage"
)

// jobsSite is one that each command of the index has something to do with.
func jobsSite(w http.ResponseWriter, r *http.Request) {
	page := func(title string, links ...string) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, "<!doctype html><title>%s</title><h1>%[1]s</h1><p>%s</p>", title, strings.Repeat("A sentence of this page. ", 20))
		for _, link := range links {
			fmt.Fprintf(w, `<a href="%s">%[1]s</a> `, link)
		}
	}
	cookie := func(name string) bool { _, err := r.Cookie(name); return err == nil }
	switch path := r.URL.Path; {
	case path == "/sitemap.xml":
		fmt.Fprint(w, "<urlset><url><loc>/docs/1</loc></url><url><loc>/docs/hidden</loc></url></urlset>")
	case path == "/a.pdf":
		w.Header().Set("Content-Type", "application/pdf")
		fmt.Fprint(w, "%PDF-1.4")
	case path == "/login" && r.Method == http.MethodPost:
		http.SetCookie(w, &http.Cookie{Name: "login", Value: r.FormValue("pw"), Path: "/"})
		http.Redirect(w, r, "/area/", http.StatusSeeOther)
	case path == "/login":
		page("Log in")
		fmt.Fprint(w, `<form method="post"><input name="user"><input type="password" name="pw"></form>`)
	case strings.HasPrefix(path, "/area/") && !cookie("login"):
		http.Redirect(w, r, "/login", http.StatusSeeOther)
	case strings.HasPrefix(path, "/area/"):
		page("Area", "/area/1", "/logout")
	case path == "/member/" && !cookie("session"):
		http.Error(w, "no", http.StatusForbidden)
	case path == "/member/":
		page("Members")
	case path == "/staff/":
		if user, password, _ := r.BasicAuth(); user != "ann" || password != "secret" {
			http.Error(w, "no", http.StatusUnauthorized)
			return
		}
		page("Staff")
	case path == "/shop":
		page("Shop")
		fmt.Fprint(w, `<div class="product"><h2>Lamp</h2><b class="price">1.234,50 €</b></div><div class="product"><h2>Table</h2><b class="price">99 €</b></div>`)
	case path == "/":
		page("Home", "/docs/", "/a.pdf", "/gone")
		fmt.Fprint(w, "<p>Write to ann@shop.example or bob@shop.example.</p>")
	case path == "/docs/":
		page("Docs", "/", "/docs/1", "/docs/2")
	case strings.HasPrefix(path, "/docs/"):
		page("Document " + path[6:])
	default:
		http.NotFound(w, r)
	}
}

var jobRow = regexp.MustCompile("(?m)^\\| [^|]+ \\| `(crawl [^`]+)` \\| \\[[^]]+\\]\\(([a-z-]+\\.md)\\) \\|$")

// Each command of the index does what it is for, on a page that there is.
func TestJobsOfTheIndexRun(t *testing.T) {
	c := newTerminal(t)
	site := httptest.NewServer(http.HandlerFunc(jobsSite))
	defer site.Close()
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Via", "1.1 proxy")
		jobsSite(w, r)
	}))
	defer proxy.Close()
	for name, text := range map[string]string{
		"seeds.txt":   site.URL + "/docs/\n" + strings.Replace(site.URL, "127.0.0.1", "localhost", 1) + "/docs/\n",
		"urls.txt":    site.URL + "/docs/\n" + site.URL + "/gone\n",
		"cookies.txt": "# Netscape HTTP Cookie File\n127.0.0.1\tFALSE\t/\tFALSE\t0\tsession\t1\n",
		"login.yml":   "page: " + site.URL + "/login\nuser: ann\npassword: secret\nsuccess: css:a[href='/logout']\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(c.dir, name), []byte(text), 0o600))
	}
	text := strings.NewReplacer("https://example.com", site.URL, "'example.com=", "'127.0.0.1=", "--listen 8091", "--listen 127.0.0.1:0", "http://127.0.0.1:3128", proxy.URL).Replace(docpage.Read(t, "docs/how-to/index.md"))
	rows := jobRow.FindAllStringSubmatch(text, -1)
	require.Len(t, rows, strings.Count(text, "| `crawl "), "each row has a command and one page")
	for _, row := range rows {
		require.FileExists(t, filepath.Join("how-to", row[2]))
		if strings.HasPrefix(row[1], "crawl audit ") { // the site has a broken link
			row[1] += "; test $? = 20"
		}
		c.run(row[1], "CRAWL_RATELIMIT_STRATEGY=off")
	}
	for name, want := range map[string]string{
		"pages.csv": `/docs/2,page,200`, "listed.csv": `/docs/hidden,page,200`, "docs.csv": `/docs/1,page,200`, "many.csv": "localhost", "checked.csv": "/gone,page,404",
		"changes.jsonl": "", "audit/junit.xml": "broken-link", "copy/index.html": "docs", "site.warc.gz": "", "markdown/llms.txt": "Document 1",
		"shop.csv": "Lamp,1234.50", "mails.csv": "bob@shop.example", "titles.csv": "/,Home,Home\n", "sitemap.txt": "/docs/2\n", "mine.csv": "/docs/2,page,200", "area.csv": "/area/1,page,200", "member.csv": "Members", "staff.csv": "Staff", "found.csv": "/docs/1,Document", "proxied.csv": "Home",
	} {
		require.Contains(t, c.file(name), want, name)
	}
	pdf, err := filepath.Glob(filepath.Join(c.dir, "files", "*", "a.pdf"))
	require.NoError(t, err)
	require.Len(t, pdf, 1)
}
