package crawlers_test

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-chi/httprate"
	"github.com/gofiber/fiber/v2"
	"github.com/gofiber/fiber/v2/middleware/adaptor"
	fiberlimiter "github.com/gofiber/fiber/v2/middleware/limiter"
	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"
	"github.com/sethvargo/go-limiter/httplimit"
	"github.com/sethvargo/go-limiter/memorystore"
	"github.com/stretchr/testify/require"
	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/memstore"
	"github.com/ulule/limiter/v3"
	"github.com/ulule/limiter/v3/drivers/middleware/stdlib"
	"github.com/ulule/limiter/v3/drivers/store/memory"
	"golang.org/x/time/rate"

	"github.com/treadlight/crawl/internal/lab/realserver"
)

var (
	half     = flag.String("limiters.half", "", "which limiters to run: tuning, final, kinds (of realserver), peers (of docs/benchmarks.md); empty means one, for a few seconds")
	csvFile  = flag.String("limiters.csv", "", "file that gets a line per cell, with what each second brought")
	binaries = flag.String("limiters.crawl", "", "programs to run, NAME=PATH with commas between; empty means this tree's")
	only     = flag.String("limiters.only", "", "names of limiters, with commas between; empty means all of the half")
	atOnce   = flag.Int("limiters.parallel", 4, "limiters that are crawled at the same time")
	share    = flag.Float64("limiters.share", .99, "of the limit that the client asks for who knows it, at an even pace")
	away     = flag.Bool("limiters.away", false, "whether what is behind the limiter is away for 20 s in the second minute")
)

// limited is a limiter that strangers wrote, with a setting that was chosen before anything was measured.
type limited struct {
	name, rule string
	available  float64 // requests per second that a client can have that knows the rule
	half       string  // that of -limiters.half which has it: empty is tuning
	start      func(t *testing.T) place
}

// place is a running server.
type place struct {
	page string // a URL to which a number is to be added
	away func(bool)
	stop func() []realserver.Hit
}

// strangers lists limiters in two parts. What is final is run once, when a change is done, and is for tuning from then
// on: a rule that was made for a limiter says nothing about others.
func strangers() []limited {
	var all []limited
	add := func(kinds []realserver.Kind, half string) {
		for _, k := range kinds {
			all = append(all, limited{name: k.Name, rule: k.Rule, available: k.Available, half: half, start: func(t *testing.T) place {
				if *away {
					return of(k.StartBefore(t))
				}
				return of(k.Start(t))
			}})
		}
	}
	add(realserver.Others(), "")
	add(realserver.Kept(), "final")
	add(realserver.Kinds(), "kinds")
	add(realserver.Compared(), "peers")
	return append(
		all,
		limited{name: "httprate-100-10", rule: "Go, sliding counter, 100 per 10 s: 429, headers, Retry-After", available: 10, start: goServer(sliding(100, 10*time.Second))},
		limited{name: "httprate-600-60", rule: "Go, sliding counter, 600 per minute: 429, headers, Retry-After", available: 10, start: goServer(sliding(600, time.Minute))},
		limited{name: "ulule-50-1", rule: "Go, fixed window, 50 per second: 429, headers", available: 50, start: goServer(ulule(50, time.Second))},
		limited{name: "ulule-300-60", rule: "Go, fixed window, 300 per minute: 429, headers", available: 5, start: goServer(ulule(300, time.Minute))},
		limited{name: "throttled-15", rule: "Go, GCRA, 15/s, burst 4: 429, headers in whole seconds, Retry-After", available: 15, start: goServer(gcra(throttled.PerSec(15), 4))},
		limited{name: "throttled-8", rule: "Go, GCRA, 480/min, burst 20: 429, headers in whole seconds, Retry-After", available: 8, start: goServer(gcra(throttled.PerMin(480), 20))},
		limited{name: "sethvargo-40-2", rule: "Go, fixed window, 40 per 2 s: 429, headers and Retry-After as dates", available: 20, start: goServer(sethvargo(40, 2*time.Second))},
		limited{name: "sethvargo-12-1", rule: "Go, fixed window, 12 per second: 429, headers and Retry-After as dates", available: 12, start: goServer(sethvargo(12, time.Second))},
		limited{name: "envoy-20-5", rule: "bucket of 20, 5 tokens per 250 ms: 429", available: 20, start: goServer(chunks(20, 5, 250*time.Millisecond))},
		limited{name: "envoy-60-60", rule: "bucket of 60, 60 tokens per 3 s: 429", available: 20, start: goServer(chunks(60, 60, 3*time.Second))},
		limited{name: "express-rate-limit-150-15", rule: "Node, fixed window, 150 per 15 s: 429, RateLimit draft 8, Retry-After", available: 10, start: node("express-rate-limit", "a")},
		limited{name: "express-rate-limit-900-60", rule: "Node, fixed window, 900 per minute: 429, X-RateLimit, Retry-After", available: 15, start: node("express-rate-limit", "b")},
		limited{name: "rate-limiter-flexible-30-2", rule: "Node, fixed window, 30 per 2 s: 429", available: 15, start: node("rate-limiter-flexible", "a")},
		limited{name: "rate-limiter-flexible-100-5", rule: "Node, fixed window, 100 per 5 s: 429, blocks for 10 s", available: 20, start: node("rate-limiter-flexible", "b")},
		limited{name: "fastify-80-4", rule: "Node, fixed window, 80 per 4 s: 429, X-RateLimit, Retry-After", available: 20, start: node("@fastify/rate-limit", "a")},
		limited{name: "fastify-25-1", rule: "Node, fixed window, 25 per second: 429, X-RateLimit, Retry-After", available: 25, start: node("@fastify/rate-limit", "b")},
		limited{name: "koa-ratelimit-90-6", rule: "Node, sliding window, 90 per 6 s: 429, X-RateLimit, Retry-After", available: 15, start: node("koa-ratelimit", "a")},
		limited{name: "koa-ratelimit-500-30", rule: "Node, sliding window, 500 per 30 s: 429, Retry-After", available: 500.0 / 30, start: node("koa-ratelimit", "b")},
		limited{name: "rack-attack-60-5", rule: "Ruby, fixed window, 60 per 5 s: 429", available: 12, start: script("ruby", "attack.rb", "{{.Host}}", "{{.Port}}", "a")},
		limited{name: "rack-attack-200-20", rule: "Ruby, fixed window, 200 per 20 s: 429, Retry-After", available: 10, start: script("ruby", "attack.rb", "{{.Host}}", "{{.Port}}", "b")},
		limited{name: "symfony-30-12", rule: "PHP, bucket of 30, 12/s: 429", available: 12, start: script("env", "symfony.php", "SETTING=a", "DIR={{.Dir}}", "php", "-S", "{{.Host}}:{{.Port}}", "FILE")},
		limited{name: "fiber-90-6", rule: "Go, sliding counter, 90 per 6 s, in whole seconds: 429, X-RateLimit, Retry-After", available: 90.0 / 7, start: goServer(fibers(90, 6*time.Second, fiberlimiter.SlidingWindow{}))},
		limited{name: "fiber-40-4-fixed", rule: "Go, fixed window, 40 per 4 s, in whole seconds: 429, X-RateLimit, Retry-After", available: 10, start: goServer(fibers(40, 4*time.Second, fiberlimiter.FixedWindow{}))},
		limited{name: "symfony-150-10", rule: "PHP, sliding counter, 150 per 10 s: 429, Retry-After", available: 15, start: script("env", "symfony.php", "SETTING=b", "DIR={{.Dir}}", "php", "-S", "{{.Host}}:{{.Port}}", "FILE")},
		// Chosen before any of them was measured.
		limited{name: "httprate-240-15", rule: "Go, sliding counter, 240 per 15 s: 429, headers, Retry-After", available: 16, half: "final", start: goServer(sliding(240, 15*time.Second))},
		limited{name: "ulule-120-10", rule: "Go, fixed window, 120 per 10 s: 429, headers", available: 12, half: "final", start: goServer(ulule(120, 10*time.Second))},
		limited{name: "throttled-22", rule: "Go, GCRA, 22/s, burst 6: 429, headers in whole seconds, Retry-After", available: 22, half: "final", start: goServer(gcra(throttled.PerSec(22), 6))},
		limited{name: "sethvargo-45-3", rule: "Go, fixed window, 45 per 3 s: 429, headers and Retry-After as dates", available: 15, half: "final", start: goServer(sethvargo(45, 3*time.Second))},
		limited{name: "envoy-30-9", rule: "bucket of 30, 9 tokens per 500 ms: 429", available: 18, half: "final", start: goServer(chunks(30, 9, 500*time.Millisecond))},
		limited{name: "echo-14-7", rule: "Go, bucket of 7, 14/s: 429", available: 14, half: "final", start: goServer(echoes(14, 7))},
		limited{name: "fiber-105-7", rule: "Go, sliding counter, 105 per 7 s, in whole seconds: 429, X-RateLimit, Retry-After", available: 105.0 / 8, half: "final", start: goServer(fibers(105, 7*time.Second, fiberlimiter.SlidingWindow{}))},
		limited{name: "express-rate-limit-260-20", rule: "Node, fixed window, 260 per 20 s: 429, RateLimit draft 6, Retry-After", available: 13, half: "final", start: node("express-rate-limit", "c")},
		limited{name: "rate-limiter-flexible-72-6", rule: "Node, fixed window, 72 per 6 s: 429, blocks for 6 s", available: 12, half: "final", start: node("rate-limiter-flexible", "c")},
		limited{name: "fastify-210-15", rule: "Node, fixed window, 210 per 15 s: 429, X-RateLimit, Retry-After", available: 14, half: "final", start: node("@fastify/rate-limit", "c")},
		limited{name: "koa-ratelimit-48-3", rule: "Node, sliding window, 48 per 3 s: 429, Retry-After", available: 16, half: "final", start: node("koa-ratelimit", "c")},
		limited{name: "rack-attack-110-10", rule: "Ruby, fixed window, 110 per 10 s: 429, Retry-After", available: 11, half: "final", start: script("ruby", "attack.rb", "{{.Host}}", "{{.Port}}", "c")},
		limited{name: "symfony-95-5", rule: "PHP, fixed window, 95 per 5 s: 429", available: 19, half: "final", start: script("env", "symfony.php", "SETTING=c", "DIR={{.Dir}}", "php", "-S", "{{.Host}}:{{.Port}}", "FILE")},
		// Those of docs/benchmarks.md, beside Compared.
		limited{name: "express-rate-limit-200-12", rule: "Node, fixed window, 200 per 12 s: 429, RateLimit draft 7, Retry-After", available: 200.0 / 12, half: "peers", start: node("express-rate-limit", "d")},
		limited{name: "gcra-18", rule: "Go, GCRA, 18/s, burst 5: 429, headers in whole seconds, Retry-After", available: 18, half: "peers", start: goServer(gcra(throttled.PerSec(18), 5))},
		limited{name: "django-rest-900-60", rule: "Python, sliding log, 900 per minute: 429, Retry-After", available: 15, half: "final", start: script("/usr/bin/python3", "django_rest.py", "{{.Host}}", "{{.Port}}", "900/min")},
	)
}

func of(s *realserver.Server) place {
	return place{page: strings.TrimSuffix(s.Page(0), "0"), away: s.Away, stop: func() []realserver.Hit {
		s.Stop()
		return s.Hits()
	}}
}

// script runs a file of limiters/ with an interpreter. The file is the first argument, or where FILE stands.
func script(interpreter, file string, args ...string) func(*testing.T) place {
	return func(t *testing.T) place {
		t.Helper()
		path, err := filepath.Abs(filepath.Join("limiters", file))
		require.NoError(t, err)
		words := append([]string{interpreter, path}, args...)
		if i := slices.Index(words, "FILE"); i > 0 {
			words = append(slices.Delete(words, 1, 2)[:i-1], path)
		}
		return of(realserver.Program(t, nil, words...))
	}
}

func node(name, setting string) func(*testing.T) place {
	return func(t *testing.T) place {
		t.Helper()
		if _, err := os.Stat("limiters/node_modules"); err != nil {
			t.Skip("SKIPPED, NOT PASSED: npm ci --prefix bench/crawlers/limiters brings what is missing")
		}
		return script("node", "server.js", "{{.Host}}", "{{.Port}}", name, setting)(t)
	}
}

func sliding(n int, period time.Duration) func(*testing.T, http.Handler) http.Handler {
	return func(_ *testing.T, next http.Handler) http.Handler {
		return httprate.LimitBy(n, period, httprate.Key("*"))(next)
	}
}

func ulule(n int64, period time.Duration) func(*testing.T, http.Handler) http.Handler {
	return func(_ *testing.T, next http.Handler) http.Handler {
		return stdlib.NewMiddleware(limiter.New(memory.NewStoreWithOptions(limiter.StoreOptions{}), limiter.Rate{Limit: n, Period: period})).Handler(next)
	}
}

func gcra(rate throttled.Rate, burst int) func(*testing.T, http.Handler) http.Handler {
	return func(t *testing.T, next http.Handler) http.Handler {
		t.Helper()
		store, err := memstore.NewCtx(1000)
		require.NoError(t, err)
		l, err := throttled.NewGCRARateLimiterCtx(store, throttled.RateQuota{MaxRate: rate, MaxBurst: burst})
		require.NoError(t, err)
		h := throttled.HTTPRateLimiterCtx{RateLimiter: l, VaryBy: &throttled.VaryBy{RemoteAddr: false}}
		return h.RateLimit(next)
	}
}

func echoes(perSecond rate.Limit, burst int) func(*testing.T, http.Handler) http.Handler {
	return func(_ *testing.T, next http.Handler) http.Handler {
		e := echo.New()
		e.Use(middleware.RateLimiter(middleware.NewRateLimiterMemoryStoreWithConfig(middleware.RateLimiterMemoryStoreConfig{Rate: perSecond, Burst: burst})))
		e.Any("/*", echo.WrapHandler(next))
		return e
	}
}

func fibers(n int, period time.Duration, kind fiberlimiter.LimiterHandler) func(*testing.T, http.Handler) http.Handler {
	return func(_ *testing.T, next http.Handler) http.Handler {
		app := fiber.New()
		app.Use(fiberlimiter.New(fiberlimiter.Config{Max: n, Expiration: period, LimiterMiddleware: kind}))
		app.All("/*", adaptor.HTTPHandler(next))
		return adaptor.FiberApp(app)
	}
}

func sethvargo(n uint64, period time.Duration) func(*testing.T, http.Handler) http.Handler {
	return func(t *testing.T, next http.Handler) http.Handler {
		t.Helper()
		store, err := memorystore.New(&memorystore.Config{Tokens: n, Interval: period})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, store.Close(context.Background())) })
		m, err := httplimit.NewMiddleware(store, func(*http.Request) (string, error) { return "all", nil })
		require.NoError(t, err)
		return m.Handle(next)
	}
}

// chunks is the bucket of Envoy's local_ratelimit: so many tokens at most, to which some are added now and then.
func chunks(most, fill int, every time.Duration) func(*testing.T, http.Handler) http.Handler {
	return func(_ *testing.T, next http.Handler) http.Handler {
		var mu sync.Mutex
		tokens, last := most, time.Now()
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			n := int(time.Since(last) / every)
			last = last.Add(time.Duration(n) * every)
			tokens = min(most, tokens+n*fill)
			ok := tokens > 0
			if ok {
				tokens--
			}
			mu.Unlock()
			if ok {
				next.ServeHTTP(w, r)
				return
			}
			http.Error(w, "local_rate_limited", http.StatusTooManyRequests)
		})
	}
}

// goServer serves the small page behind a middleware and keeps the log itself.
func goServer(middleware func(*testing.T, http.Handler) http.Handler) func(*testing.T) place {
	return func(t *testing.T) place {
		t.Helper()
		var mu sync.Mutex
		var hits []realserver.Hit
		var gone atomic.Bool
		page := middleware(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if gone.Load() {
				http.Error(w, "the application is away", http.StatusServiceUnavailable)
				return
			}
			w.Header().Set("Content-Type", "text/html")
			io.WriteString(w, "<!DOCTYPE html><title>A page</title><p>The same small page under every query.\n")
		}))
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			at, seen := time.Now(), &status{ResponseWriter: w, code: http.StatusOK}
			page.ServeHTTP(seen, r)
			h := realserver.Hit{At: at, Status: seen.code, URI: r.RequestURI}
			if s, err := strconv.Atoi(w.Header().Get("Retry-After")); err == nil {
				h.RetryAfter = time.Duration(s) * time.Second
			}
			mu.Lock()
			defer mu.Unlock()
			hits = append(hits, h)
		})}
		var serving sync.WaitGroup
		serving.Go(func() { _ = server.Serve(ln) })
		stop := sync.OnceFunc(func() {
			server.Close()
			serving.Wait()
		})
		t.Cleanup(stop)
		return place{page: "http://" + ln.Addr().String() + "/page.html?q=", away: gone.Store, stop: func() []realserver.Hit {
			stop()
			return hits
		}}
	}
}

type status struct {
	http.ResponseWriter
	code int
}

func (s *status) WriteHeader(code int) {
	s.code = code
	s.ResponseWriter.WriteHeader(code)
}

// TestLimiters prints a table: a row per limiter, a column per program, figures from the server's log: it fails when
// something did not run, not for a figure. "knows" is a client that is told the rule and asks at most of it, at an even pace.
func TestLimiters(t *testing.T) {
	clients := pick(t, installed(t), *columns, func(c client) string { return c.name })
	var chosen []limited
	for _, l := range strangers() {
		if *half == "" && l.name == "envoy-20-5" || *half == "tuning" && l.half == "" || *half != "" && *half == l.half {
			if *only == "" || strings.Contains(","+*only+",", ","+l.name+",") {
				chosen = append(chosen, l)
			}
		}
	}
	begin(t)
	cells := make([][]string, len(chosen))
	slots := make(chan struct{}, *atOnce)
	t.Run("all", func(t *testing.T) {
		for i, l := range chosen {
			cells[i] = make([]string, len(clients))
			for j, c := range clients {
				t.Run(l.name+"/"+c.name, func(t *testing.T) {
					t.Parallel()
					slots <- struct{}{}
					defer func() { <-slots }()
					cells[i][j] = one(t, l, c)
				})
			}
		}
	})
	table := header(clients)
	for i, l := range chosen {
		table += fmt.Sprintf("| %s | %s | %s |\n", l.name, l.rule, strings.Join(cells[i], " | "))
	}
	_, err := fmt.Fprint(os.Stdout, "\n", table)
	require.NoError(t, err)
}

func one(t *testing.T, l limited, c client) string {
	p := l.start(t)
	addr, path, _ := strings.Cut(strings.TrimPrefix(p.page, "http://"), "/")
	near := startRelay(t, addr, *rtt)
	begun := time.Now()
	if *away {
		for at, gone := range map[time.Duration]bool{awayFrom: true, awayTo: false} {
			timer := time.AfterFunc(at, func() { p.away(gone) })
			defer timer.Stop()
		}
	}
	page := "http://" + near + "/" + path
	if c.name == "knows" {
		pace(t, page, *share*l.available, *cellTime)
	} else {
		c.crawl(t, page, *cellTime)
	}
	hits := p.stop()
	cell := figures(t, hits, l.available, *cellTime)
	if *away && *cellTime > awayTo {
		cell = outageOf(hits, begun.Add(awayFrom), begun.Add(awayTo), l.available).String()
	}
	t.Logf("%s, %s: %s", l.name, c.name, cell)
	record(t, l, c, hits)
	return cell
}

// pace asks at an even pace for that long, whatever the answers.
func pace(t *testing.T, page string, rate float64, d time.Duration) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 32}}
	defer client.CloseIdleConnections()
	var all sync.WaitGroup
	begin := time.Now()
	for n := 0; ; n++ {
		due := time.Duration(float64(n) / rate * float64(time.Second))
		if due > d {
			break
		}
		time.Sleep(time.Until(begin.Add(due)))
		all.Go(func() {
			resp, err := client.Get(page + strconv.Itoa(n))
			if err == nil {
				_, _ = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		})
	}
	all.Wait()
}
