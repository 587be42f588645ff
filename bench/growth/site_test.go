package growth_test

import (
	"encoding/json"
	"fmt"
	"io"
	"math/bits"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// site is a made-up site of any size: a page is a function of its number. Page i leads to
// the pages i·Fan+1 … i·Fan+Fan, so that page 0 leads to all, to the first four, as every
// page of a site leads to a few, and to others all over the site.
type site struct {
	Pages int64 // how many there are
	Links int   // of a page
	Fan   int   // of them, those that lead to pages that no other page leads to first
	Hosts int64 // among which the pages are dealt out in turn
	Run   int64 // how many neighbours go to one host before it is the next one's turn
	Size  int   // bytes of a page at least
	Delay int   // Crawl-delay in robots.txt, in seconds; zero means that there is no robots.txt
	Sorry int   // Retry-After of every page, in seconds; zero means that pages are served
}

// nav is how many pages every page leads to.
const nav = 4

// host is the address of the host with a number. There are 16 million addresses, of which
// none here ends in the first or last of a range, which may be special.
func (s *site) host(n int64) string {
	if s.Hosts <= 1 {
		return "127.0.0.1"
	}
	return fmt.Sprintf("127.%d.%d.%d", 1+n/250/250, n/250%250+1, n%250+1)
}

// url appends the URL of a page. Its length is about what URLs of documentation have.
func (s *site) url(b []byte, page int64, port int) []byte {
	h := page / s.Run % s.Hosts
	return fmt.Appendf(b, "http://%s:%d/reference/part-%02d/chapter-%03d/some-page-%012d.html", s.host(h), port, page%97, page%991, page)
}

// number is the page of a path.
func (s *site) number(path string) (int64, bool) {
	text, ok := strings.CutSuffix(path, ".html")
	n, err := strconv.ParseInt(text[strings.LastIndexByte(text, '-')+1:], 10, 64)
	return n, ok && err == nil && n < s.Pages
}

// links calls each with the pages that a page leads to, in their order.
func (s *site) links(page int64, each func(int64)) {
	n := 0
	if page <= s.Pages/int64(s.Fan) { // and so the product does not overflow
		for k := page*int64(s.Fan) + 1; n < s.Fan && k < s.Pages; k++ {
			each(k)
			n++
		}
	}
	for k := range int64(nav) {
		if k < s.Pages {
			each(k)
			n++
		}
	}
	for x := uint64(page + 1); n < s.Links; n++ {
		x = scatter(x)
		to, _ := bits.Mul64(x, uint64(s.Pages))
		each(int64(to))
	}
}

// filler is of no consequence, but takes its room as text on a page does. In it are words that no
// other page has: where all say the same there is a trap, which a crawl leaves.
const filler = " is what is said here, and who reads it has read it for the first time.</p>\n"

// word appends one of thirteen letters, another for each number.
func word(b []byte, number uint64) []byte {
	for range 13 {
		b = append(b, 'a'+byte(number&31)%26)
		number >>= 5
	}
	return b
}

// scatter is Knuth's multiplicative hash: all over the place, and the same every time.
func scatter(x uint64) uint64 { return x*6364136223846793005 + 1442695040888963407 }

// page appends what is served.
func (s *site) page(b []byte, page int64, port int) []byte {
	b = fmt.Appendf(b, "<!DOCTYPE html>\n<html lang=\"en\"><head><title>Page %d</title></head><body>\n", page)
	s.links(page, func(to int64) {
		b = append(b, `<p><a href="`...)
		b = s.url(b, to, port)
		b = append(b, "\">a page</a></p>\n"...)
	})
	for x := uint64(page); len(b) < s.Size; {
		x = scatter(x)
		b = append(word(append(b, "<p>"...), x), filler...)
	}
	return append(b, "</body></html>\n"...)
}

// report is what a server has seen.
type report struct {
	Pages int64     // different ones that were asked for
	Again int64     // requests for a page that had been asked for before
	Other int64     // requests for what is no page, robots.txt included
	First time.Time // when the first request came since the last report; zero if none has
}

// server serves a site.
type server struct {
	site
	port   int
	seen   []atomic.Uint32 // a bit for each page, but for those too far away to be asked for
	pages  atomic.Int64
	again  atomic.Int64
	other  atomic.Int64
	first  atomic.Int64
	bodies sync.Pool // of *[]byte
}

// seenMost bounds the pages that are told apart: those of the largest crawl here.
const seenMost = 1 << 27

func newServer(s site, port int) *server {
	v := &server{site: s, port: port, seen: make([]atomic.Uint32, min(s.Pages, seenMost)/32+1)}
	v.bodies.New = func() any { return new([]byte) }
	return v
}

func (v *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/report" {
		_ = json.NewEncoder(w).Encode(v.report()) // who asked will see
		return
	}
	v.first.CompareAndSwap(0, time.Now().UnixNano())
	n, ok := v.number(r.URL.Path)
	if !ok {
		v.other.Add(1)
		v.rules(w, r)
		return
	}
	v.count(n)
	if v.Sorry > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(v.Sorry))
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	body := v.bodies.Get().(*[]byte)
	*body = v.page((*body)[:0], n, v.port)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Length", strconv.Itoa(len(*body)))
	_, _ = w.Write(*body) // who hangs up has been killed
	v.bodies.Put(body)
}

func (v *server) rules(w http.ResponseWriter, r *http.Request) {
	if v.Delay == 0 || r.URL.Path != "/robots.txt" {
		http.NotFound(w, r)
		return
	}
	_, _ = fmt.Fprintf(w, "User-agent: *\nCrawl-delay: %d\n", v.Delay)
}

func (v *server) count(n int64) {
	bit := uint32(1) << (n % 32)
	if n >= seenMost || v.seen[n/32].Or(bit)&bit == 0 {
		v.pages.Add(1)
	} else {
		v.again.Add(1)
	}
}

func (v *server) report() report {
	r := report{Pages: v.pages.Load(), Again: v.again.Load(), Other: v.other.Load()}
	if at := v.first.Swap(0); at != 0 {
		r.First = time.Unix(0, at)
	}
	return r
}

// serve is the program that the test starts for a site: it says its port, and ends with its
// standard input, so that it never outlives the test.
func serve(config string) error {
	var s site
	if err := json.Unmarshal([]byte(config), &s); err != nil {
		return err
	}
	l, err := net.Listen("tcp4", ":0") // thousands of addresses at once
	if err != nil {
		return err
	}
	port := l.Addr().(*net.TCPAddr).Port
	go func() { _ = http.Serve(onlyLoopback{l}, newServer(s, port)) }() // ends with the process
	fmt.Println(port)
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// onlyLoopback hangs up on whoever is not of this machine.
type onlyLoopback struct{ net.Listener }

func (l onlyLoopback) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil || c.RemoteAddr().(*net.TCPAddr).IP.IsLoopback() {
			return c, err
		}
		_ = c.Close() // nothing was sent
	}
}
