// Package mirror opens copies of documentation in a browser whose network is cut off, those of `crawl mirror`, wget2 and
// httrack, and compares pages with the live ones.
//
// It needs Chromium and is skipped without -docs:
//
//	go test ./mirror -v -timeout 1h -docs /usr/share/doc/git-doc,/usr/share/doc/sqlite3 -crawl ../bin/crawl -pages 20
//
// For each directory it prints a line for each tool: time, processor time, pages in the copy of those that were drawn,
// requests that failed and did not on the live page, links that lead to a file that is not there or to the network
// although the page was fetched, and pages of which more than 1 % of the first 4,000 rows of pixels, or of the height,
// differ. -pages 0 measures the time alone.
package mirror

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"image"
	"image/draw"
	"image/png"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

var (
	docs   = flag.String("docs", "", "directories with index.html, with commas between")
	binary = flag.String("crawl", "", "the program; empty: the one in the path")
	pages  = flag.Int("pages", 20, "how many pages are drawn of each directory")
	beside = flag.Int("beside", -1, "how many of these are looked at in the copies of the others; -1: all")
	seed   = flag.Uint64("seed", 1, "of the draw")
	only   = flag.String("tools", "crawl,wget2,httrack", "which tools run")
	keep   = flag.String("keep", "", "keep the copies in this directory")
)

// tool makes a copy of a site into a directory.
type tool struct {
	name string
	args func(site, out string) []string
}

var tools = []tool{
	{"crawl", func(site, out string) []string {
		program := *binary
		if program == "" {
			program = "crawl"
		}
		return []string{program, "mirror", "-q", "--strategy", "off", "--set", "per_host_max=5", "-o", out, site}
	}},
	{"wget2", func(site, out string) []string { return []string{"wget2", "-q", "-mkpE", "-P", out, site} }},
	{"httrack", func(site, out string) []string {
		return []string{"httrack", site, "-O", out, "-q", "-c5", "--disable-security-limits", "--max-rate=0", "--connection-per-second=0", "-I0"}
	}},
}

// site serves a directory, and notes what was answered with 200.
type site struct {
	*http.Server
	home string
	mu   sync.Mutex
	had  map[string]bool
}

func serve(t *testing.T, dir string) *site {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &site{home: "http://" + l.Addr().String() + "/", had: map[string]bool{}}
	files := http.FileServer(http.Dir(dir))
	s.Server = &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := &noted{ResponseWriter: w, status: http.StatusOK}
		files.ServeHTTP(n, r)
		if n.status == http.StatusOK {
			s.mu.Lock()
			s.had[r.URL.Path] = true
			s.mu.Unlock()
		}
	})}
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() { _ = s.Close() })
	return s
}

type noted struct {
	http.ResponseWriter
	status int
}

func (n *noted) WriteHeader(status int) { n.status = status; n.ResponseWriter.WriteHeader(status) }

// take forgets what was answered, and returns it.
func (s *site) take() map[string]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	had := s.had
	s.had = map[string]bool{}
	return had
}

func TestMirrors(t *testing.T) {
	if *docs == "" {
		t.Skip("give -docs")
	}
	b := open(t)
	fmt.Printf("%-26s %-8s %8s %8s %7s %8s %8s %8s %8s\n", "documentation", "tool", "seconds", "cpu", "pages", "missing", "failed", "broken", "differ")
	for dir := range strings.SplitSeq(*docs, ",") {
		s := serve(t, dir)
		var copies []*copied
		for _, tool := range tools {
			if !slices.Contains(strings.Split(*only, ","), tool.name) {
				continue
			}
			copies = append(copies, mirror(t, s, tool))
		}
		drawn := sample(copies)
		live := make(map[string]*shown)
		for _, page := range drawn {
			live[page] = b.show(t, s.home+strings.TrimPrefix(page, "/"))
		}
		for _, c := range copies {
			looked := drawn
			if c.name != tools[0].name && *beside >= 0 {
				looked = drawn[:min(len(drawn), *beside)]
			}
			c.compare(t, b, s, looked, live)
			fmt.Printf("%-26s %-8s %8.2f %8.2f %7d %8d %8d %8d %8d\n", tail(dir), c.name, c.wall.Seconds(), c.cpu.Seconds(), len(looked), c.missing, c.failed, c.broken, c.differ)
			for _, why := range c.why {
				fmt.Println("    " + why)
			}
		}
	}
}

func tail(dir string) string { return dir[max(0, len(dir)-26):] }

// sample is some of the pages that every tool has fetched.
func sample(copies []*copied) []string {
	var all []string
	for page := range copies[0].had {
		if strings.HasSuffix(page, ".html") && !slices.ContainsFunc(copies, func(c *copied) bool { return !c.had[page] }) {
			all = append(all, page)
		}
	}
	slices.Sort(all)
	r := rand.New(rand.NewPCG(*seed, 1))
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all[:min(len(all), *pages)]
}

// copied is what a tool has made.
type copied struct {
	name      string
	root      string // of the host
	wall, cpu time.Duration
	had       map[string]bool

	missing, failed, broken, differ int
	why                             []string
}

func mirror(t *testing.T, s *site, tool tool) *copied {
	out := t.TempDir()
	if *keep != "" {
		out = filepath.Join(*keep, tool.name+"-"+fmt.Sprint(time.Now().UnixNano()))
	}
	s.take()
	args := tool.args(s.home, out)
	cmd := exec.Command(args[0], args[1:]...)
	began := time.Now()
	text, err := cmd.CombinedOutput()
	c := &copied{name: tool.name, wall: time.Since(began), cpu: cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), had: s.take()}
	if err != nil {
		c.note("%v: %.200s", err, text)
	}
	for _, name := range []string{"127.0.0.1+", "127.0.0.1_", "127.0.0.1:", "127.0.0.1"} {
		if found, _ := filepath.Glob(filepath.Join(out, name+"*")); c.root == "" && len(found) > 0 {
			c.root = found[0]
		}
	}
	return c
}

func (c *copied) note(format string, args ...any) {
	if len(c.why) < 5 {
		c.why = append(c.why, fmt.Sprintf(format, args...))
	}
}

// compare opens each page of the copy.
func (c *copied) compare(t *testing.T, b *browser, s *site, drawn []string, live map[string]*shown) {
	checked := make(map[string]bool)
	for _, page := range drawn {
		file := filepath.Join(c.root, filepath.FromSlash(page))
		if _, err := os.Stat(file); err != nil {
			c.missing++
			c.note("no file: %s", page)
			continue
		}
		got := b.show(t, "file://"+file)
		if n := len(got.failed) - len(live[page].failed); n > 0 {
			c.failed += n
			c.note("failed on %s: %.200v", page, got.failed)
		}
		for _, link := range got.links {
			if !checked[link] {
				checked[link] = true
				c.link(s, page, link)
			}
		}
		height := max(got.height, live[page].height)
		if share := max(difference(got.picture, live[page].picture), (2*height-got.height-live[page].height)/max(1, height)); share > .01 {
			c.differ++
			c.note("differs by %.1f %%: %s", 100*share, page)
		}
	}
}

// link checks where a link of a copy leads.
func (c *copied) link(s *site, page, link string) {
	u, err := url.Parse(link)
	if err != nil {
		return
	}
	switch {
	case u.Scheme == "file":
		info, err := os.Stat(u.Path)
		if err == nil && info.IsDir() {
			err = os.ErrNotExist
		}
		if err != nil {
			c.broken++
			c.note("no file: %s on %s", link, page)
		}
	case strings.HasPrefix(link, s.home) && c.had[u.Path]:
		c.broken++
		c.note("was fetched: %s on %s", link, page)
	}
}

// browser is Chromium.
type browser struct {
	ctx context.Context

	mu     sync.Mutex
	live   string
	urls   map[network.RequestID]string
	failed []string
}

// shown is a page as it is seen.
type shown struct {
	failed  []string
	links   []string
	height  float64
	picture image.Image
}

func open(t *testing.T) *browser {
	program, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("there is no chromium")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.UserDataDir(t.TempDir()), chromedp.WSURLReadTimeout(time.Minute), chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"))
	ctx, free := chromedp.NewExecAllocator(context.WithoutCancel(t.Context()), options...)
	t.Cleanup(free)
	ctx, leave := chromedp.NewContext(ctx)
	t.Cleanup(leave)
	b := &browser{ctx: ctx}
	require.NoError(t, chromedp.Do(ctx))
	require.NoError(t, chromedp.Listen(ctx, b.hear))
	call(t, b, network.Enable, network.EnableParams{})
	call(t, b, network.SetCacheDisabled, network.SetCacheDisabledParams{CacheDisabled: true})
	call(t, b, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: 1024, Height: 4000, DeviceScaleFactor: 1})
	t.Cleanup(func() { _ = chromedp.Cancel(ctx) })
	return b
}

func call[P, R any](t *testing.T, b *browser, c cdp.Command[P, R], params P) {
	t.Helper()
	_, err := chromedp.Call(b.ctx, c, params)
	require.NoError(t, err)
}

// hear notes what fails. Of a page that is a file whatever goes to the network fails, even if somebody answers.
func (b *browser) hear(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		b.urls[e.RequestID] = e.Request.URL
		if b.live == "" && strings.HasPrefix(e.Request.URL, "http") {
			b.failed = append(b.failed, "network: "+e.Request.URL)
		}
	case *network.EventResponseReceived:
		if e.Response.Status >= 400 && b.live != "" {
			b.failed = append(b.failed, e.Response.URL)
		}
	case *network.EventLoadingFailed:
		if u := b.urls[e.RequestID]; b.live != "" || !strings.HasPrefix(u, "http") {
			b.failed = append(b.failed, u+": "+e.ErrorText)
		}
	}
}

// show opens a page and looks at it.
func (b *browser) show(t *testing.T, page string) *shown {
	t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, 5*time.Minute) // a busy machine takes more than one to draw a page
	defer cancel()
	b.mu.Lock()
	b.failed, b.urls, b.live = nil, map[network.RequestID]string{}, ""
	if strings.HasPrefix(page, "http") {
		b.live = page
	}
	b.mu.Unlock()
	require.NoError(t, chromedp.Do(ctx, chromedp.Navigate(page)), page)
	links, err := chromedp.Run(ctx, chromedp.Evaluate[[]string]("[...document.querySelectorAll('a[href],area[href]')].map(a => ''+a.href)"))
	require.NoError(t, err, page)
	height, err := chromedp.Run(ctx, chromedp.Evaluate[float64]("document.documentElement.scrollHeight"))
	require.NoError(t, err, page)
	fast := true
	shot, err := chromedp.Call(ctx, cdppage.CaptureScreenshot, cdppage.CaptureScreenshotParams{Format: cdppage.CaptureScreenshotFormatPng, OptimizeForSpeed: &fast})
	require.NoError(t, err, page)
	picture, err := png.Decode(bytes.NewReader(shot.Data))
	require.NoError(t, err, page)
	b.mu.Lock()
	defer b.mu.Unlock()
	slices.Sort(b.failed) // one that is asked for twice is one
	return &shown{failed: slices.Compact(slices.Clone(b.failed)), links: links, height: height, picture: picture}
}

// difference is the share of pixels that differ.
func difference(a, b image.Image) float64 {
	p, q := pixels(a), pixels(b)
	r := p.Bounds().Union(q.Bounds())
	both := p.Bounds().Intersect(q.Bounds())
	n := r.Dx()*r.Dy() - both.Dx()*both.Dy()
	for y := both.Min.Y; y < both.Max.Y; y++ {
		s, t := p.Pix[p.PixOffset(both.Min.X, y):][:4*both.Dx()], q.Pix[q.PixOffset(both.Min.X, y):][:4*both.Dx()]
		if bytes.Equal(s, t) {
			continue
		}
		for x := 0; x < len(s); x += 4 {
			if !bytes.Equal(s[x:x+4], t[x:x+4]) {
				n++
			}
		}
	}
	return float64(n) / float64(max(1, r.Dx()*r.Dy()))
}

func pixels(i image.Image) *image.NRGBA {
	if p, ok := i.(*image.NRGBA); ok {
		return p
	}
	p := image.NewNRGBA(i.Bounds())
	draw.Draw(p, p.Bounds(), i, i.Bounds().Min, draw.Src)
	return p
}
