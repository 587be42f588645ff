package audit

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/cmd/crawl/internal/audit/report"
)

var plantedHalf = flag.Int("audit.half", 0, "plant all copies of the variants with odd (1) or even (2) numbers, or of all (3), and slow pages too; 0 = one copy of each")

// kind is a kind of fault, as the data file has it.
type kind struct {
	Kind     string
	Variants []variant
}

type variant struct {
	Copies         int
	On             string
	Pages, Outside []planted
	Sitemap        []string
	Robots         []string
	Want           [][2]string
}

// planted is a page with something that other pages do not have.
type planted struct {
	Path, Location, Type, Raw    string
	Status, NoHead, Fill         int
	Delay                        time.Duration
	Header                       map[string]*string
	Title, Description, H1, Lang optional
	Canonical, Text              optional
	Head, Body                   string
	NoLink                       bool `yaml:"nolink"`
	NoMap                        bool `yaml:"nomap"`
}

// optional is a text that a page may leave out.
type optional struct {
	given, out bool
	text       string
}

func (o *optional) UnmarshalYAML(n *yaml.Node) error {
	o.given, o.out = true, n.Value == "{none}"
	o.text = n.Value
	return nil
}

// or returns the text, or the usual one if it is not set.
func (o optional) or(usual string) string {
	if o.given {
		return o.text
	}
	return usual
}

// site is a clean site with planted faults.
type site struct {
	origin, out, plain, tls, dead string
	pages, outside                map[string]planted
	links, sitemap, robots        []string
	want                          map[string]bool // "rule URL"
	any                           map[string][]string
	n                             int
}

var vocabulary = func() (words []string) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		word := ""
		for range 2 + r.IntN(3) {
			word += string("bdfgklmnprstvz"[r.IntN(14)]) + string("aeiou"[r.IntN(5)])
		}
		words = append(words, word)
	}
	return words
}()

// words returns n words, the same for the same seed.
func words(seed string, n int) string {
	var sum uint64
	for _, c := range seed {
		sum = sum*31 + uint64(c)
	}
	r := rand.New(rand.NewPCG(sum, 7))
	list := make([]string, n)
	for i := range list {
		list[i] = vocabulary[r.IntN(len(vocabulary))]
	}
	return strings.Join(list, " ")
}

// fill replaces what is in braces.
func (s *site) fill(text, id string) string {
	text = strings.NewReplacer("{i}", id, "{site}", s.origin, "{out}", s.out, "{plain}", s.plain, "{tls}", s.tls, "{dead}", s.dead,
		"{words}", words("words"+id, 150)).Replace(text)
	for {
		before, rest, found := strings.Cut(text, "{long:")
		seed, after, _ := strings.Cut(rest, "}")
		if !found {
			return text
		}
		text = before + words("long"+seed, 400) + after
	}
}

// plant puts one copy of a variant into the site.
func (s *site) plant(v *variant, id string) {
	var own []string
	for _, p := range v.Pages {
		s.add(p, id)
		own = append(own, s.fill(p.Path, id))
	}
	for _, p := range v.Outside {
		s.outside[s.fill(p.Path, id)] = p
	}
	if v.On != "" {
		s.add(planted{Path: "/on/{i}.html", Body: v.On}, id)
	}
	for _, u := range v.Sitemap {
		s.sitemap = append(s.sitemap, s.absolute(s.fill(u, id)))
	}
	s.robots = append(s.robots, v.Robots...)
	for _, w := range v.Want {
		if w[1] == "any" {
			s.any[w[0]+" "+id] = own
			continue
		}
		s.want[w[0]+" "+s.absolute(s.fill(w[1], id))] = true
	}
}

func (s *site) absolute(ref string) string {
	if strings.HasPrefix(ref, "/") {
		return s.origin + ref
	}
	return ref
}

func (s *site) add(p planted, id string) {
	text := func(o *optional) {
		o.text = s.fill(o.text, id)
	}
	p.Path, p.Location, p.Head, p.Body, p.Raw = s.fill(p.Path, id), s.fill(p.Location, id), s.fill(p.Head, id), s.fill(p.Body, id), s.fill(p.Raw, id)
	for _, o := range []*optional{&p.Title, &p.Description, &p.H1, &p.Lang, &p.Canonical, &p.Text} {
		text(o)
	}
	header := make(map[string]*string)
	for name, value := range p.Header {
		if header[name] = value; value != nil {
			filled := s.fill(*value, id)
			header[name] = &filled
		}
	}
	p.Header = header
	s.pages[p.Path] = p
	if page := p.Status == 0 && p.Type == ""; page && !p.NoLink {
		s.links = append(s.links, p.Path)
	}
	if p.Status == 0 && p.Type == "" && !p.NoMap {
		s.sitemap = append(s.sitemap, s.origin+p.Path)
	}
}

// html returns the HTML of a page.
func (s *site) html(p *planted) string {
	if p.Raw != "" {
		return p.Raw
	}
	var b strings.Builder
	attribute := ""
	if !p.Lang.out {
		attribute = fmt.Sprintf(" lang=%q", p.Lang.or("en"))
	}
	fmt.Fprintf(&b, "<!DOCTYPE html>\n<html%s><head><meta charset=\"utf-8\">", attribute)
	for _, e := range []struct {
		o             optional
		usual, format string
	}{
		{p.Title, "The page " + p.Path, "<title>%s</title>"},
		{p.Description, "What is on the page " + p.Path, `<meta name="description" content="%s">`},
		{p.Canonical, s.origin + p.Path, `<link rel="canonical" href="%s">`},
	} {
		if !e.o.out {
			fmt.Fprintf(&b, e.format, e.o.or(e.usual))
		}
	}
	b.WriteString(p.Head + "</head><body>")
	if !p.H1.out {
		fmt.Fprintf(&b, "<h1>%s</h1>", p.H1.or("About "+p.Path))
	}
	if text := p.Text.or("<p>" + words(p.Path, 150) + "</p>"); text != "" {
		b.WriteString("<main>" + text + "</main>")
	}
	if p.Body != "" {
		b.WriteString(p.Body)
	}
	b.WriteString("</body></html>")
	if p.Fill > 0 {
		b.WriteString("<!--" + strings.Repeat(" fill", p.Fill/5) + "-->")
	}
	return b.String()
}

func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/robots.txt":
		fmt.Fprintf(w, "User-agent: *\nDisallow: /private/\nSitemap: %s/sitemap.xml\n%s\n", s.origin, strings.Join(s.robots, "\n"))
		return
	case "/sitemap.xml":
		w.Header().Set("Content-Type", "application/xml")
		_, _ = io.WriteString(w, `<?xml version="1.0"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">`)
		for _, u := range s.sitemap {
			_, _ = fmt.Fprintf(w, "<url><loc>%s</loc></url>", u)
		}
		_, _ = io.WriteString(w, "</urlset>")
		return
	}
	p, there := s.pages[r.URL.RequestURI()]
	if !there {
		p, there = s.pages[r.URL.Path]
	}
	h := w.Header()
	for name, value := range map[string]string{
		"Strict-Transport-Security": "max-age=1000", "Content-Security-Policy": "default-src * 'unsafe-inline'", "X-Content-Type-Options": "nosniff",
		"X-Frame-Options": "DENY", "Referrer-Policy": "no-referrer", "Content-Type": "text/html; charset=utf-8",
	} {
		h.Set(name, value)
	}
	if !there {
		http.NotFound(w, r)
		return
	}
	for name, value := range p.Header {
		if h.Del(name); value != nil {
			h.Set(name, *value)
		}
	}
	time.Sleep(p.Delay) // the rule of slow pages measures the time of the response
	switch {
	case p.Location != "":
		h.Set("Location", p.Location)
		w.WriteHeader(p.Status)
	case p.Type != "":
		h.Set("Content-Type", p.Type)
		_, _ = io.WriteString(w, p.Raw+strings.Repeat(" ", p.Fill))
	case p.Status != 0:
		w.WriteHeader(p.Status)
		_, _ = io.WriteString(w, "<title>no</title>")
	default:
		_, _ = io.WriteString(w, s.html(&p))
	}
}

// serveOutside serves another site.
func (s *site) serveOutside(w http.ResponseWriter, r *http.Request) {
	p, there := s.outside[r.URL.Path]
	switch {
	case strings.HasPrefix(r.Host, "plain.test"):
	case r.URL.Path == "/robots.txt":
		_, _ = io.WriteString(w, "User-agent: *\nDisallow: /forbidden/\n")
	case !there:
		http.NotFound(w, r)
	case p.NoHead != 0 && r.Method == http.MethodHead:
		w.WriteHeader(p.NoHead)
	case p.Location != "":
		id := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
		w.Header().Set("Location", s.fill(p.Location, id))
		w.WriteHeader(p.Status)
	default:
		w.WriteHeader(p.Status)
	}
}

// grow makes a clean site, plants the faults in it, and serves it.
func grow(t *testing.T, half int) (s *site, options crawl.Options) {
	t.Helper()
	data, err := os.ReadFile("testdata/faults.yaml")
	require.NoError(t, err)
	var kinds []kind
	require.NoError(t, yaml.Unmarshal(data, &kinds))
	s = &site{pages: map[string]planted{}, outside: map[string]planted{}, want: map[string]bool{}, any: map[string][]string{}}
	server := httptest.NewUnstartedServer(s)
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)
	server.StartTLS()
	t.Cleanup(server.Close)
	outside := httptest.NewServer(http.HandlerFunc(s.serveOutside))
	t.Cleanup(outside.Close)
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, closed.Close())
	port := func(address string) string { _, port, _ := net.SplitHostPort(address); return port }
	s.origin, s.tls = "https://example.com:"+port(server.Listener.Addr().String()), "https://wrong.test:"+port(server.Listener.Addr().String())
	s.out, s.plain = "http://out.test:"+port(outside.Listener.Addr().String()), "http://plain.test:"+port(outside.Listener.Addr().String())
	s.dead = "http://dead.test:" + port(closed.Addr().String())

	s.add(planted{Path: "/"}, "")
	s.add(planted{Path: "/img/ok.png", Type: "image/png", Fill: 1000}, "")
	for i := range 60 {
		s.add(planted{Path: fmt.Sprintf("/clean/%d", i)}, "")
	}
	copies := 1
	if half != 0 {
		copies = math.MaxInt
	}
	for i, k := range kinds {
		for j, v := range k.Variants {
			if half == 1 && j%2 == 1 || half == 2 && j%2 == 0 {
				continue
			}
			if half == 0 && slices.ContainsFunc(v.Pages, func(p planted) bool { return p.Delay > 0 || p.Fill > 2_000_000 }) {
				continue // on a busy machine all pages are slow, and large ones slower
			}
			for c := range min(v.Copies, copies) {
				s.plant(&v, fmt.Sprintf("k%dv%dc%d", i, j, c))
				s.n += len(v.Want)
			}
		}
	}
	home := s.pages["/"]
	for hub, of := range slices.Collect(slices.Chunk(s.links, 40)) {
		body := ""
		for _, path := range of {
			body += fmt.Sprintf(`<a href=%q>%s</a> `, path, path)
		}
		path := fmt.Sprintf("/hub/%d", hub)
		home.Body += fmt.Sprintf(`<a href=%q>%s</a> `, path, path)
		s.add(planted{Path: path, Body: body}, "")
	}
	s.pages["/"] = home

	ca := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600))
	options.Politeness.Retries, options.Politeness.RetryBaseDelay = 1, time.Millisecond
	options.Access.CAFile = ca
	for _, host := range []string{"example.com", "wrong.test", "out.test", "plain.test", "dead.test"} {
		options.Access.Resolve = append(options.Access.Resolve, host+":*:127.0.0.1")
		options.Politeness.Hosts = append(options.Politeness.Hosts, crawl.HostOptions{Match: host, InitialRPS: 10_000, MaxRPS: 10_000})
	}
	options.Fetch.AllowPrivate, options.Scope.Resources, options.Scope.FollowNofollow = true, true, true
	return s, options
}

// The audit finds every fault of a site, and nothing else.
func TestPlantedFaultsAreFound(t *testing.T) {
	s, options := grow(t, *plantedHalf)
	var out bytes.Buffer
	cfg := configOf("", s.origin+"/")
	cfg.Options, cfg.External, cfg.JSON, cfg.FailOn, cfg.Out = options, true, true, []string{"none"}, &out
	require.NoError(t, Run(t.Context(), cfg))
	var r report.Report
	require.NoError(t, json.Unmarshal(out.Bytes(), &r))
	found := make(map[string]string)
	for _, f := range r.Findings {
		found[f.Rule+" "+f.URL] = f.Detail
	}
	hits := 0
	for key := range s.want {
		if _, there := found[key]; !there {
			t.Errorf("not found: %s", key)
		} else {
			hits++
		}
		delete(found, key)
	}
	for key, paths := range s.any {
		rule, _, _ := strings.Cut(key, " ")
		i := slices.IndexFunc(paths, func(path string) bool { _, there := found[rule+" "+s.origin+path]; return there })
		if i < 0 {
			t.Errorf("not found: %s on one of %v", rule, paths)
			continue
		}
		hits++
		delete(found, rule+" "+s.origin+paths[i])
	}
	for key, detail := range found {
		if *plantedHalf == 0 && strings.HasPrefix(key, "slow-") {
			continue
		}
		t.Errorf("false: %s (%s)", key, detail)
	}
	t.Logf("%d of %d planted findings were found, and %d others, on %d pages", hits, len(s.want)+len(s.any), len(found), r.Totals.Pages)
}
