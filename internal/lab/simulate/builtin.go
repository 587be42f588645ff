package simulate

import (
	"math/rand/v2"
	"net/http"
	"slices"
	"syscall"
	"time"
)

// Scenarios returns the built-in scenarios: the usual limiters, failing hosts, and what misleads
// a controller. Each call makes new ones.
func Scenarios() []Scenario {
	return slices.Concat(limits(), loads(), failures(), nearHosts(), slowHosts(), busyClients(), modules(), slidingLogs(), sharedAddresses())
}

const (
	tooMany     = http.StatusTooManyRequests
	unavailable = http.StatusServiceUnavailable
	internal    = http.StatusInternalServerError
)

// limiter makes a Server for a run.
type limiter = func(rnd *rand.Rand) Server

// far is a distant host; with [aPage] an answer takes 150 ms.
func far() Link { return Link{RTT: 60 * time.Millisecond, Jitter: 0.1} }

// near is a host on the same machine.
func near() Link { return Link{RTT: 400 * time.Microsecond, Jitter: 0.1, Contention: true} }

// aPage adds the time to make a page.
func aPage(s Server, rnd *rand.Rand) Server {
	return &pages{Server: s, median: 85 * time.Millisecond, sigma: 0.3, rnd: rnd}
}

// flat is a capacity that does not change.
func flat(rps float64) func(time.Duration) float64 {
	return func(time.Duration) float64 { return rps }
}

// farHost is a limiter in front of a distant site.
func farHost(name, doc string, rps float64, l limiter) Scenario {
	return Scenario{
		Name: name, Doc: doc, Link: far(), Capacity: flat(rps),
		New: func(rnd *rand.Rand) Server { return aPage(l(rnd), rnd) },
	}
}

// nearHost is a limiter in front of static pages on the same machine.
func nearHost(name, doc string, rps float64, l limiter) Scenario {
	return Scenario{Name: name, Doc: doc, Link: near(), Capacity: flat(rps), New: l}
}

// long is sc with enough time for several windows of a minute.
func long(sc Scenario) Scenario {
	sc.Duration = 30 * time.Minute
	return sc
}

// nginx is limit_req with "nodelay", without a Retry-After.
func nginx(rps, burst float64, status int) limiter { return bucket(rps, burst, status, hint{}) }

// delaying is limit_req without "nodelay".
func delaying(rps, burst float64, status int) limiter {
	return func(*rand.Rand) Server {
		return &leaky{rate: always(rps), burst: burst, delay: true, status: status}
	}
}

// bucket is a token bucket of burst+1 tokens.
func bucket(rps, burst float64, status int, o hint) limiter {
	return func(*rand.Rand) Server {
		return &leaky{rate: always(rps), burst: burst, status: status, hint: o}
	}
}

// window is a fixed window. One on the clock has a random phase, so that a run does not begin
// with a whole window.
func window(w fixed) limiter {
	return func(rnd *rand.Rand) Server {
		s := w
		if s.opening == onTheClock {
			s.phase = time.Duration(rnd.Float64() * float64(s.window))
		}
		return &s
	}
}

// slidingLog is a sliding log that answers 429.
func slidingLog(n int, w time.Duration, o hint) limiter {
	return func(*rand.Rand) Server { return newSliding(n, w, tooMany, o) }
}

// limits are S1 to S5: the most usual limiters, and queues.
func limits() []Scenario {
	timed := hint{form: exact}
	slow := farHost("S1d", "nginx 0.5/s, burst 20, 429", 0.5, nginx(0.5, 20, tooMany))
	slow.Link.RTT = 215 * time.Millisecond // and a page: 0.3 s
	minute := fixed{max: 600, window: time.Minute, status: tooMany}
	retry, quota := minute, minute
	retry.hint, quota.hint, quota.quota = timed, timed, true
	return []Scenario{
		farHost("S1a", "nginx 10/s, burst 20, 429", 10, nginx(10, 20, tooMany)),
		farHost("S1b", "nginx 10/s, burst 20, 503", 10, nginx(10, 20, unavailable)),
		farHost("S1c", "nginx 100/s, burst 20, 503", 100, nginx(100, 20, unavailable)),
		slow,
		farHost("S1e", "nginx 10/s, burst 20, without nodelay: late and not refused, 503", 10, delaying(10, 20, unavailable)),
		farHost("S2a", "fixed window 100 in 10 s, Retry-After", 10, window(fixed{max: 100, window: 10 * time.Second, status: tooMany, hint: timed})),
		long(farHost("S2b", "fixed window 600 in 60 s, Retry-After", 10, window(retry))),
		long(farHost("S2c", "fixed window 600 in 60 s, bare 429", 10, window(minute))),
		long(farHost("S2d", "fixed window 600 in 60 s, Retry-After, quota headers", 10, window(quota))),
		farHost("S3a", "sliding log 100 in 10 s, bare 429", 10, slidingLog(100, 10*time.Second, hint{})),
		long(farHost("S3b", "sliding log 600 in 60 s, bare 429", 10, slidingLog(600, time.Minute, hint{}))),
		queued("S4a", "queue M/M/20, 200/s", 20, always(1)),
		queued("S4b", "queue M/M/4, 40/s", 4, always(1)),
		farHost("S5", "bucket 10/s of 20, 429, Retry-After 1", 10, bucket(10, 19, tooMany, hint{constant, time.Second})),
		farHost("S5b", "bucket 1/s of 5, 429, Retry-After 5", 1, bucket(1, 4, tooMany, hint{constant, 5 * time.Second})),
		farHost("S5c", "bucket 10/s of 20, 429, Retry-After 30", 10, bucket(10, 19, tooMany, hint{constant, 30 * time.Second})),
	}
}

// queued is a host without a limiter, of so many workers of 100 ms each.
func queued(name, doc string, workers int, slower steps) Scenario {
	const service = 100 * time.Millisecond
	return Scenario{
		Name: name, Doc: doc, Link: far(),
		Capacity: func(t time.Duration) float64 { return float64(workers) / (service.Seconds() * slower.at(t)) },
		New:      func(rnd *rand.Rand) Server { return newQueue(workers, service, slower, rnd) },
	}
}

// Changes come at five minutes and go at ten, with a steady state before, between and after.
const (
	changeAt  = 5 * time.Minute
	restoreAt = 10 * time.Minute
)

// dip is low between the two.
func dip(normal, low float64) steps {
	return steps{{0, normal}, {changeAt, low}, {restoreAt, normal}}
}

// changing is an nginx whose rate changes.
func changing(name, doc string, rate steps, status int) Scenario {
	sc := farHost(name, doc, 0, func(*rand.Rand) Server { return &leaky{rate: rate, burst: 20, status: status} })
	sc.Capacity = rate.at
	return sc
}

// unlimited is a host without a limit, of very uneven latency.
func unlimited(name, doc string, ceiling, sigma float64, factor steps) Scenario {
	return Scenario{
		Name: name, Doc: doc, Link: far(), MaxRPS: ceiling, Capacity: flat(ceiling),
		New: func(rnd *rand.Rand) Server {
			return &pages{median: 85 * time.Millisecond, sigma: sigma, factor: factor, rnd: rnd}
		},
	}
}

// failing is a host without a limit that fails a share of the requests.
func failing(name, doc string, ceiling, fails float64, status ...int) Scenario {
	sc := farHost(name, doc, ceiling, func(rnd *rand.Rand) Server {
		return &flaky{Server: &pages{rnd: rnd}, share: fails, status: status, rnd: rnd}
	})
	sc.MaxRPS = ceiling
	return sc
}

// loads are S6, S8, S9, S10, S12: hosts that change or vary, or get few requests.
func loads() []Scenario {
	trickle := farHost("S12a", "nginx 10/s, burst 20, 429; 2 URLs/s, then all", 10, nginx(10, 20, tooMany))
	trickle.Offer = Offer{Rate: 2, Until: changeAt}
	pulses := farHost("S12b", "nginx 100/s, burst 20, 503; URLs for 30 s, none for 60 s", 100, nginx(100, 20, unavailable))
	pulses.Offer = Offer{On: 30 * time.Second, Off: time.Minute}
	return []Scenario{
		changing("S6a", "nginx 100/s, then 25, then 100, 429", dip(100, 25), tooMany),
		changing("S6b", "nginx 10/s, then 2.5, then 10, 503", dip(10, 2.5), unavailable),
		queued("S6c", "queue M/M/20, 200/s, then 50, then 200", 20, dip(1, 4)),
		unlimited("S8a", "no limit, very uneven pages, client's ceiling 200/s", 200, 1.2, nil),
		unlimited("S8b", "no limit, pages 4 times as slow from 300 s on, client's ceiling 100/s", 100, 0.5, steps{{0, 1}, {changeAt, 4}}),
		failing("S9a", "1 % of 500 and 503 at random, client's ceiling 200/s", 200, 0.01, internal, unavailable),
		failing("S9b", "3 % of 503 at random, client's ceiling 50/s", 50, 0.03, unavailable),
		farHost("S10", "nginx 1000/s, burst 100, 503", 1000, nginx(1000, 100, unavailable)),
		trickle, pulses,
	}
}

// down is a far nginx of 100/s with outages.
func down(name, doc string, says Answer, when spans) Scenario {
	const rps = 100
	sc := farHost(name, doc, rps, func(rnd *rand.Rand) Server {
		return &outage{Server: nginx(rps, 20, unavailable)(rnd), when: when, says: says}
	})
	sc.Capacity = func(t time.Duration) float64 {
		if _, out := when.at(t); out {
			return 0
		}
		return rps
	}
	return sc
}

// failures are S7 and S11: hosts that go down or ban.
func failures() []Scenario {
	minute := spans{{changeAt, changeAt + time.Minute}} // four times the breaker's open time
	flapping := spans{{3 * time.Minute, 4 * time.Minute}, {6 * time.Minute, 7 * time.Minute}, {9 * time.Minute, 10 * time.Minute}}
	// As fail2ban, behind an easy limiter.
	banning := func(name, doc string, most int) Scenario {
		return farHost(name, doc, 10, func(rnd *rand.Rand) Server {
			return &jail{Server: nginx(10, 20, tooMany)(rnd), max: most, term: 2 * time.Minute}
		})
	}
	return []Scenario{
		down("S7", "nginx 100/s, burst 20, 503; 60 s of 500", Answer{Status: internal}, minute),
		down("S7b", "nginx 100/s, burst 20, 503; hanging for 60 s", Answer{Delay: time.Hour}, minute),
		down("S7c", "nginx 100/s, burst 20, 503; refusing connections for 60 s", Answer{Err: syscall.ECONNREFUSED}, minute),
		down("S7d", "nginx 100/s, burst 20, 503; 403 for a minute, three times", Answer{Status: http.StatusForbidden}, flapping),
		banning("S11a", "nginx 10/s, burst 20, 429; 403 for 120 s after 10 refusals in a minute", 10),
		banning("S11b", "nginx 10/s, burst 20, 429; 403 for 120 s after 4 refusals in a minute", 4),
	}
}
