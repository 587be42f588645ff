package simulate

import (
	"math/rand/v2"
	"net/http"
	"slices"
	"syscall"
	"time"
)

// Scenarios returns the built-in scenarios, which cover the limiters in use, the
// ways in which hosts fail, and what misleads a controller. Each call makes new ones.
func Scenarios() []Scenario {
	return slices.Concat(limits(), loads(), troubles(), nearHosts(), slowHosts(), busyClients(), modules(), slidingLogs(), sharedAddresses())
}

const (
	tooMany     = http.StatusTooManyRequests
	unavailable = http.StatusServiceUnavailable
	internal    = http.StatusInternalServerError
)

// far is a host on another continent's edge; with [aPage] an answer takes 150 ms.
func far() Link { return Link{RTT: 60 * time.Millisecond, Jitter: 0.1} }

// near is a host on the same machine: sub-millisecond, but for the scheduler.
func near() Link { return Link{RTT: 400 * time.Microsecond, Jitter: 0.1, Contention: true} }

// aPage adds what making a page takes.
func aPage(s Server, rnd *rand.Rand) Server {
	return &pages{Server: s, median: 85 * time.Millisecond, sigma: 0.3, rnd: rnd}
}

// flat is a capacity that does not change.
func flat(rps float64) func(time.Duration) float64 {
	return func(time.Duration) float64 { return rps }
}

// farHost is a limiter in front of a site that is far away.
func farHost(name, doc string, rps float64, limiter func(rnd *rand.Rand) Server) Scenario {
	return Scenario{
		Name: name, Doc: doc, Link: far(), Capacity: flat(rps),
		New: func(rnd *rand.Rand) Server { return aPage(limiter(rnd), rnd) },
	}
}

// nearHost is a limiter in front of static pages on the same machine.
func nearHost(name, doc string, rps float64, limiter func(rnd *rand.Rand) Server) Scenario {
	return Scenario{Name: name, Doc: doc, Link: near(), Capacity: flat(rps), New: limiter}
}

// long is sc for long enough to meet windows of a minute a few times.
func long(sc Scenario) Scenario {
	sc.Duration = 30 * time.Minute
	return sc
}

// nginx is what limit_req does with "nodelay", and without a Retry-After.
func nginx(rps, burst float64, status int) func(*rand.Rand) Server {
	return bucket(rps, burst, status, order{})
}

// delaying is limit_req without "nodelay".
func delaying(rps, burst float64, status int) func(*rand.Rand) Server {
	return func(*rand.Rand) Server {
		return &leaky{rate: always(rps), burst: burst, delay: true, status: status}
	}
}

// bucket is a token bucket of burst+1 tokens.
func bucket(rps, burst float64, status int, o order) func(*rand.Rand) Server {
	return func(*rand.Rand) Server {
		return &leaky{rate: always(rps), burst: burst, status: status, order: o}
	}
}

// window makes windows of w, those on the clock at a random phase: a run would begin
// with a whole window otherwise, as no crawl does.
func window(w fixed) func(*rand.Rand) Server {
	return func(rnd *rand.Rand) Server {
		s := w
		if s.opening == onTheClock {
			s.phase = time.Duration(rnd.Float64() * float64(s.window))
		}
		return &s
	}
}

// limits are the limiters of section S1 to S5: what most hosts have.
func limits() []Scenario {
	slidingLog := func(n int, w time.Duration) func(*rand.Rand) Server {
		return func(*rand.Rand) Server { return newSliding(n, w, tooMany, order{}) }
	}
	ordered := order{form: exact}
	slow := farHost("S1d", "nginx 0.5/s, burst 20, 429", 0.5, nginx(0.5, 20, tooMany))
	slow.Link.RTT = 215 * time.Millisecond // and a page: 0.3 s
	return []Scenario{
		farHost("S1a", "nginx 10/s, burst 20, 429", 10, nginx(10, 20, tooMany)),
		farHost("S1b", "nginx 10/s, burst 20, 503", 10, nginx(10, 20, unavailable)),
		farHost("S1c", "nginx 100/s, burst 20, 503", 100, nginx(100, 20, unavailable)),
		slow,
		farHost("S1e", "nginx 10/s, burst 20, without nodelay: late and not refused, 503", 10, delaying(10, 20, unavailable)),
		farHost("S2a", "fixed window 100 in 10 s, Retry-After", 10, window(fixed{max: 100, window: 10 * time.Second, status: tooMany, order: ordered})),
		long(farHost("S2b", "fixed window 600 in 60 s, Retry-After", 10, window(fixed{max: 600, window: time.Minute, status: tooMany, order: ordered}))),
		long(farHost("S2c", "fixed window 600 in 60 s, bare 429", 10, window(fixed{max: 600, window: time.Minute, status: tooMany}))),
		long(farHost("S2d", "fixed window 600 in 60 s, Retry-After, quota headers", 10, window(fixed{max: 600, window: time.Minute, status: tooMany, order: ordered, quota: true}))),
		farHost("S3a", "sliding log 100 in 10 s, bare 429", 10, slidingLog(100, 10*time.Second)),
		long(farHost("S3b", "sliding log 600 in 60 s, bare 429", 10, slidingLog(600, time.Minute))),
		queued("S4a", "queue M/M/20, 200/s", 20, nil),
		queued("S4b", "queue M/M/4, 40/s", 4, nil),
		farHost("S5", "bucket 10/s of 20, 429, Retry-After 1", 10, bucket(10, 19, tooMany, order{constant, time.Second})),
		farHost("S5b", "bucket 1/s of 5, 429, Retry-After 5", 1, bucket(1, 4, tooMany, order{constant, 5 * time.Second})),
		farHost("S5c", "bucket 10/s of 20, 429, Retry-After 30", 10, bucket(10, 19, tooMany, order{constant, 30 * time.Second})),
	}
}

// queued is a host without a limiter, of so many workers of 100 ms each.
func queued(name, doc string, workers int, slower steps) Scenario {
	if slower == nil {
		slower = always(1)
	}
	const service = 100 * time.Millisecond
	return Scenario{
		Name: name, Doc: doc, Link: far(),
		Capacity: func(t time.Duration) float64 { return float64(workers) / (service.Seconds() * slower.at(t)) },
		New:      func(rnd *rand.Rand) Server { return newQueue(workers, service, slower, rnd) },
	}
}

// Changes come at five minutes and go at ten: late enough for a steady state before,
// early enough for one after.
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

// lognormal is a host that bears anything, its pages taking very different times.
func lognormal(name, doc string, ceiling, sigma float64, factor steps) Scenario {
	return Scenario{
		Name: name, Doc: doc, Link: far(), MaxRPS: ceiling, Capacity: flat(ceiling),
		New: func(rnd *rand.Rand) Server {
			return &pages{median: 85 * time.Millisecond, sigma: sigma, factor: factor, rnd: rnd}
		},
	}
}

// failing is a host that bears anything and fails a share of the requests.
func failing(name, doc string, ceiling, fails float64, status ...int) Scenario {
	sc := farHost(name, doc, ceiling, func(rnd *rand.Rand) Server {
		return &flaky{Server: &pages{rnd: rnd}, share: fails, status: status, rnd: rnd}
	})
	sc.MaxRPS = ceiling
	return sc
}

// loads are hosts that change, vary or are asked for little: S6, S8, S9, S10, S12.
func loads() []Scenario {
	trickle := farHost("S12a", "nginx 10/s, burst 20, 429; 2 URLs/s, then all", 10, nginx(10, 20, tooMany))
	trickle.Offer = Offer{Rate: 2, Until: changeAt}
	pulses := farHost("S12b", "nginx 100/s, burst 20, 503; URLs for 30 s, none for 60 s", 100, nginx(100, 20, unavailable))
	pulses.Offer = Offer{On: 30 * time.Second, Off: time.Minute}
	return []Scenario{
		changing("S6a", "nginx 100/s, then 25, then 100, 429", dip(100, 25), tooMany),
		changing("S6b", "nginx 10/s, then 2.5, then 10, 503", dip(10, 2.5), unavailable),
		queued("S6c", "queue M/M/20, 200/s, then 50, then 200", 20, dip(1, 4)),
		lognormal("S8a", "no limit, very uneven pages, client's ceiling 200/s", 200, 1.2, nil),
		lognormal("S8b", "no limit, pages 4 times as slow from 300 s on, client's ceiling 100/s", 100, 0.5, steps{{0, 1}, {changeAt, 4}}),
		failing("S9a", "1 % of 500 and 503 at random, client's ceiling 200/s", 200, 0.01, internal, unavailable),
		failing("S9b", "3 % of 503 at random, client's ceiling 50/s", 50, 0.03, unavailable),
		farHost("S10", "nginx 1000/s, burst 100, 503", 1000, nginx(1000, 100, unavailable)),
		trickle, pulses,
	}
}

// down is a far nginx of 100/s that answers alike while it is down.
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

// troubles are hosts that go down or lock out: S7 and S11.
func troubles() []Scenario {
	// The breaker's open time is 15 s, so a minute is several of its rounds.
	minute := spans{{changeAt, changeAt + time.Minute}}
	flapping := spans{{3 * time.Minute, 4 * time.Minute}, {6 * time.Minute, 7 * time.Minute}, {9 * time.Minute, 10 * time.Minute}}
	// fail2ban's way, on top of a limiter that alone would be easy.
	jailed := func(name, doc string, most int) Scenario {
		return farHost(name, doc, 10, func(rnd *rand.Rand) Server {
			return &jail{Server: nginx(10, 20, tooMany)(rnd), max: most, term: 2 * time.Minute}
		})
	}
	return []Scenario{
		down("S7", "nginx 100/s, burst 20, 503; 60 s of 500", Answer{Status: internal}, minute),
		down("S7b", "nginx 100/s, burst 20, 503; hanging for 60 s", Answer{Delay: time.Hour}, minute),
		down("S7c", "nginx 100/s, burst 20, 503; refusing connections for 60 s", Answer{Err: syscall.ECONNREFUSED}, minute),
		down("S7d", "nginx 100/s, burst 20, 503; 403 for a minute, three times", Answer{Status: http.StatusForbidden}, flapping),
		jailed("S11a", "nginx 10/s, burst 20, 429; 403 for 120 s after 10 refusals in a minute", 10),
		jailed("S11b", "nginx 10/s, burst 20, 429; 403 for 120 s after 4 refusals in a minute", 4),
	}
}

// nearHosts are S13 to S16: limiters where the latency tells nothing.
func nearHosts() []Scenario {
	// A stick table's http_req_rate, and a deny that names the table's period.
	haproxy := func(name, doc string, n float64, w time.Duration) Scenario {
		return nearHost(name, doc, n/w.Seconds(), func(*rand.Rand) Server {
			return &approximate{max: n, window: w, status: tooMany, order: order{constant, w}}
		})
	}
	// DOSPageCount within DOSPageInterval of a second, and DOSBlockingPeriod.
	blocking := func(name, doc string, n int, block time.Duration) Scenario {
		return nearHost(name, doc, float64(n), func(*rand.Rand) Server { return &evasive{max: n, block: block} })
	}
	// mod_qos counts from the first request on and reckons in whole seconds.
	qos := func(name, doc string, n int, w time.Duration) Scenario {
		return nearHost(name, doc, float64(n)/w.Seconds(), window(fixed{max: n, window: w, opening: byWholeSecond, status: unavailable}))
	}
	return []Scenario{
		nearHost("S13a", "near nginx 20/s, burst 5, 429", 20, nginx(20, 5, tooMany)),
		nearHost("S13b", "near nginx 20/s, burst 5, 503", 20, nginx(20, 5, unavailable)),
		nearHost("S13c", "near nginx 2/s, burst 5, 429", 2, nginx(2, 5, tooMany)),
		haproxy("S14a", "near haproxy 200 in 10 s, refused count, Retry-After 10", 200, 10*time.Second),
		long(haproxy("S14b", "near haproxy 120 in 60 s, refused count, Retry-After 60", 120, time.Minute)),
		haproxy("S14c", "near haproxy 200 in 1 s, refused count, Retry-After 1", 200, time.Second),
		long(haproxy("S14d", "near haproxy 3000 in 60 s, refused count, Retry-After 60", 3000, time.Minute)),
		blocking("S15a", "near mod_evasive 20/s, 403 until silent for 10 s", 20, 10*time.Second),
		blocking("S15b", "near mod_evasive 100/s, 403 until silent for 10 s", 100, 10*time.Second),
		blocking("S15c", "near mod_evasive 20/s, 403 until silent for 60 s", 20, time.Minute),
		blocking("S15d", "near mod_evasive 5/s, 403 until silent for 10 s", 5, 10*time.Second),
		qos("S16a", "near window of 200 in 10 s from the first request, bare 503", 200, 10*time.Second),
		long(qos("S16b", "near window of 120 in 60 s from the first request, bare 503", 120, time.Minute)),
		qos("S16c", "near window of 200 in 1 s from the first request, bare 503", 200, time.Second),
		long(qos("S16d", "near window of 3000 in 60 s from the first request, bare 503", 3000, time.Minute)),
		// What a mod_qos set to 200 in 10 s was measured to be.
		qos("S16e", "near mod_qos: 199 in 11 s from the first request, bare 503", 199, 11*time.Second),
	}
}

// slowHosts are S17 and S18: no burst to hide jitter in, and one request in seconds.
func slowHosts() []Scenario {
	strict := func(name, doc string, rps float64, rtt time.Duration) Scenario {
		sc := farHost(name, doc, rps, nginx(rps, 0, tooMany))
		sc.Link = Link{RTT: rtt, Jitter: 0.1}
		return sc
	}
	ordered := order{form: exact}
	return []Scenario{
		strict("S17a", "nginx 10/s, no burst, 429, RTT 5 ms", 10, 5*time.Millisecond),
		strict("S17b", "nginx 10/s, no burst, 429, RTT 100 ms", 10, 100*time.Millisecond),
		strict("S17c", "nginx 60/s, no burst, 429, RTT 5 ms", 60, 5*time.Millisecond),
		strict("S17d", "nginx 60/s, no burst, 429, RTT 100 ms", 60, 100*time.Millisecond),
		long(farHost("S18a", "bucket 0.2/s of 1, bare 429", 0.2, bucket(0.2, 0, tooMany, order{}))),
		long(farHost("S18b", "bucket 0.2/s of 5, bare 429", 0.2, bucket(0.2, 4, tooMany, order{}))),
		long(farHost("S18c", "bucket 0.2/s of 5, 429, Retry-After", 0.2, bucket(0.2, 4, tooMany, ordered))),
		long(farHost("S18d", "bucket 0.5/s of 1, bare 429", 0.5, bucket(0.5, 0, tooMany, order{}))),
		long(farHost("S18e", "bucket 0.5/s of 5, bare 429", 0.5, bucket(0.5, 4, tooMany, order{}))),
		long(farHost("S18f", "bucket 0.5/s of 5, 429, Retry-After", 0.5, bucket(0.5, 4, tooMany, ordered))),
		long(farHost("S18g", "bucket 1/s of 1, bare 429", 1, bucket(1, 0, tooMany, order{}))),
		long(farHost("S18h", "bucket 1/s of 5, bare 429", 1, bucket(1, 4, tooMany, order{}))),
		long(farHost("S18i", "bucket 1/s of 1, 429, Retry-After", 1, bucket(1, 0, tooMany, ordered))),
		nearHost("S19", "near limit_conn 4, each answer takes 200 ms, 503", 20, func(*rand.Rand) Server {
			return &connections{most: 4, takes: 200 * time.Millisecond}
		}),
	}
}

// busyClients are S20: limiters as before, asked from a machine that builds or tests
// something besides.
func busyClients() []Scenario {
	stalled := func(sc Scenario, gap, longest time.Duration) Scenario {
		sc.Stalls = Stalls{Gap: gap, Longest: longest}
		return sc
	}
	const often, long, worst = 300 * time.Millisecond, 200 * time.Millisecond, 600 * time.Millisecond
	return []Scenario{
		stalled(nearHost("S20a", "near nginx 20/s, burst 5, 429; client stalls for up to 200 ms", 20, nginx(20, 5, tooMany)), often, long),
		stalled(farHost("S20b", "nginx 20/s, burst 5, 503; client stalls for up to 200 ms", 20, nginx(20, 5, unavailable)), often, long),
		stalled(nearHost("S20c", "near nginx 200/s, burst 20, 503; client stalls for up to 200 ms", 200, nginx(200, 20, unavailable)), often, long),
		stalled(nearHost("S20d", "near nginx 20/s, burst 5, 429; client stalls for up to 600 ms", 20, nginx(20, 5, tooMany)), time.Second, worst),
	}
}

// modules are S21: limiters of widely used software that are none of the above.
func modules() []Scenario {
	throttle := func(*rand.Rand) Server { return &whole{max: 200, period: 10 * time.Second, status: tooMany} }
	stalled := nearHost("S21b", "near vsthrottle 200 in 10 s, 429; client stalls for up to 20 ms", 20, throttle)
	stalled.Stalls = Stalls{Gap: 300 * time.Millisecond, Longest: 20 * time.Millisecond}
	return []Scenario{
		nearHost("S21a", "near vsthrottle 200 in 10 s: whole tokens only, 429", 20, throttle),
		stalled,
		nearHost("S21c", "near Flask-Limiter, 200 in any 10 s, quota headers, 429", 20, func(*rand.Rand) Server {
			s := newSliding(200, 10*time.Second, tooMany, order{form: exact})
			s.quota = true
			return s
		}),
		farHost("S21d", "sliding counter 100 in 10 s, quota headers, Retry-After date, 429", 10, func(*rand.Rand) Server {
			return &counter{approximate: approximate{
				max: 100, window: 10 * time.Second, status: tooMany, order: order{form: wholeDate},
			}, quota: true}
		}),
		long(farHost("S21e", "Flask-Limiter, 600 in any 60 s, quota headers, 429", 10, func(*rand.Rand) Server {
			s := newSliding(600, time.Minute, tooMany, order{form: exact})
			s.quota = true
			return s
		})),
		farHost("S21f", "sliding counter 20 in 2 s, quota headers, Retry-After date, 429", 10, func(*rand.Rand) Server {
			return &counter{approximate: approximate{
				max: 20, window: 2 * time.Second, status: tooMany, order: order{form: wholeDate},
			}, quota: true}
		}),
		farHost("S21g", "Flask-Limiter, 200 in any 1 s, quota headers, 429", 200, func(*rand.Rand) Server {
			s := newSliding(200, time.Second, tooMany, order{form: exact})
			s.quota = true
			return s
		}),
	}
}
