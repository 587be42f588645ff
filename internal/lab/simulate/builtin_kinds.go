package simulate

import (
	"math/rand/v2"
	"time"
)

// nearHosts are S13 to S16: limiters where the latency tells nothing.
func nearHosts() []Scenario {
	// A stick table's http_req_rate, and a deny that names the table's period.
	haproxy := func(name, doc string, n float64, w time.Duration) Scenario {
		return nearHost(name, doc, n/w.Seconds(), func(*rand.Rand) Server {
			return &approximate{max: n, window: w, status: tooMany, hint: hint{constant, w}}
		})
	}
	// DOSPageCount within DOSPageInterval of a second, and DOSBlockingPeriod.
	blocking := func(name, doc string, n int, block time.Duration) Scenario {
		return nearHost(name, doc, float64(n), func(*rand.Rand) Server { return &evasive{max: n, block: block} })
	}
	// mod_qos counts from the first request on, in whole seconds.
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
		// A mod_qos set to 200 in 10 s, as measured.
		qos("S16e", "near mod_qos: 199 in 11 s from the first request, bare 503", 199, 11*time.Second),
	}
}

// slowHosts are S17 to S19: without a burst to absorb jitter, with seconds between two requests,
// or with a limit of connections.
func slowHosts() []Scenario {
	strict := func(name, doc string, rps float64, rtt time.Duration) Scenario {
		sc := farHost(name, doc, rps, nginx(rps, 0, tooMany))
		sc.Link = Link{RTT: rtt, Jitter: 0.1}
		return sc
	}
	slow := func(name, doc string, rps, burst float64, o hint) Scenario {
		return long(farHost(name, doc, rps, bucket(rps, burst, tooMany, o)))
	}
	timed := hint{form: exact}
	return []Scenario{
		strict("S17a", "nginx 10/s, no burst, 429, RTT 5 ms", 10, 5*time.Millisecond),
		strict("S17b", "nginx 10/s, no burst, 429, RTT 100 ms", 10, 100*time.Millisecond),
		strict("S17c", "nginx 60/s, no burst, 429, RTT 5 ms", 60, 5*time.Millisecond),
		strict("S17d", "nginx 60/s, no burst, 429, RTT 100 ms", 60, 100*time.Millisecond),
		slow("S18a", "bucket 0.2/s of 1, bare 429", 0.2, 0, hint{}),
		slow("S18b", "bucket 0.2/s of 5, bare 429", 0.2, 4, hint{}),
		slow("S18c", "bucket 0.2/s of 5, 429, Retry-After", 0.2, 4, timed),
		slow("S18d", "bucket 0.5/s of 1, bare 429", 0.5, 0, hint{}),
		slow("S18e", "bucket 0.5/s of 5, bare 429", 0.5, 4, hint{}),
		slow("S18f", "bucket 0.5/s of 5, 429, Retry-After", 0.5, 4, timed),
		slow("S18g", "bucket 1/s of 1, bare 429", 1, 0, hint{}),
		slow("S18h", "bucket 1/s of 5, bare 429", 1, 4, hint{}),
		slow("S18i", "bucket 1/s of 1, 429, Retry-After", 1, 0, timed),
		nearHost("S19", "near limit_conn 4, each answer takes 200 ms, 503", 20, func(*rand.Rand) Server {
			return &connections{most: 4, takes: 200 * time.Millisecond}
		}),
	}
}

// stalled is sc for a client whose machine is busy.
func stalled(sc Scenario, gap, longest time.Duration) Scenario {
	sc.Stalls = Stalls{Gap: gap, Longest: longest}
	return sc
}

const oftenStalled = 300 * time.Millisecond

// busyClients are S20: usual limiters, and a client on a busy machine.
func busyClients() []Scenario {
	const longest = 200 * time.Millisecond
	return []Scenario{
		stalled(nearHost("S20a", "near nginx 20/s, burst 5, 429; client stalls for up to 200 ms", 20, nginx(20, 5, tooMany)), oftenStalled, longest),
		stalled(farHost("S20b", "nginx 20/s, burst 5, 503; client stalls for up to 200 ms", 20, nginx(20, 5, unavailable)), oftenStalled, longest),
		stalled(nearHost("S20c", "near nginx 200/s, burst 20, 503; client stalls for up to 200 ms", 200, nginx(200, 20, unavailable)), oftenStalled, longest),
		stalled(nearHost("S20d", "near nginx 20/s, burst 5, 429; client stalls for up to 600 ms", 20, nginx(20, 5, tooMany)), time.Second, 3*longest),
	}
}

// modules are S21: other limiters of widely used software.
func modules() []Scenario {
	throttle := func(*rand.Rand) Server { return &whole{max: 200, period: 10 * time.Second, status: tooMany} }
	flask := func(n int, w time.Duration) limiter {
		return func(*rand.Rand) Server {
			s := newSliding(n, w, tooMany, hint{form: exact})
			s.quota = true
			return s
		}
	}
	gateway := func(n float64, w time.Duration) limiter {
		return func(*rand.Rand) Server {
			return &counter{approximate: approximate{max: n, window: w, status: tooMany, hint: hint{form: wholeDate}}, quota: true}
		}
	}
	return []Scenario{
		nearHost("S21a", "near vsthrottle 200 in 10 s: whole tokens only, 429", 20, throttle),
		stalled(nearHost("S21b", "near vsthrottle 200 in 10 s, 429; client stalls for up to 20 ms", 20, throttle), oftenStalled, 20*time.Millisecond),
		nearHost("S21c", "near Flask-Limiter, 200 in any 10 s, quota headers, 429", 20, flask(200, 10*time.Second)),
		farHost("S21d", "sliding counter 100 in 10 s, quota headers, Retry-After date, 429", 10, gateway(100, 10*time.Second)),
		long(farHost("S21e", "Flask-Limiter, 600 in any 60 s, quota headers, 429", 10, flask(600, time.Minute))),
		farHost("S21f", "sliding counter 20 in 2 s, quota headers, Retry-After date, 429", 10, gateway(20, 2*time.Second)),
		farHost("S21g", "Flask-Limiter, 200 in any 1 s, quota headers, 429", 200, flask(200, time.Second)),
	}
}

// slidingLogs are S22: limiters that remember the last requests. A burst is possible once, and
// costs as much a window later.
func slidingLogs() []Scenario {
	const short, medium, whole = 10 * time.Second, time.Minute, 10 * time.Minute
	dated := hint{form: wholeDate}
	// lasting is sc for six windows of ten minutes, of which the search takes the first.
	lasting := func(sc Scenario) Scenario {
		sc.Duration = 6 * whole
		return sc
	}
	distant := func(name, doc string, n int, w time.Duration, o hint) Scenario {
		return farHost(name, doc, float64(n)/w.Seconds(), slidingLog(n, w, o))
	}
	nextDoor := func(name, doc string, n int, w time.Duration) Scenario {
		return nearHost(name, doc, float64(n)/w.Seconds(), slidingLog(n, w, hint{}))
	}
	quick := func(name, doc string, l limiter) Scenario {
		return Scenario{
			Name: name, Doc: doc, Link: Link{RTT: time.Millisecond, Jitter: 0.1}, Capacity: flat(10), MaxRPS: 100,
			New: func(rnd *rand.Rand) Server {
				return &pages{Server: l(rnd), median: 20 * time.Millisecond, sigma: 0.4, rnd: rnd}
			},
		}
	}
	return []Scenario{
		distant("S22a", "sliding log 100 in 10 s, Retry-After date", 100, short, dated),
		nextDoor("S22b", "near sliding log 60 in 10 s, bare 429", 60, short),
		nextDoor("S22c", "near sliding log 600 in 10 s, bare 429", 600, short),
		distant("S22d", "sliding log 600 in 10 s, bare 429", 600, short, hint{}),
		distant("S22e", "sliding log 60 in 60 s, bare 429", 60, medium, hint{}),
		nextDoor("S22f", "near sliding log 300 in 60 s, bare 429", 300, medium),
		distant("S22g", "sliding log 300 in 60 s, Retry-After date", 300, medium, dated),
		lasting(distant("S22h", "sliding log 600 in 10 min, bare 429", 600, whole, hint{})),
		lasting(nextDoor("S22i", "near sliding log 120 in 10 min, bare 429", 120, whole)),
		lasting(distant("S22j", "sliding log 600 in 10 min, Retry-After date", 600, whole, dated)),
		quick("S22k", "sliding log 100 in 10 s, Retry-After date, quick pages, client's ceiling 100/s", slidingLog(100, short, dated)),
		quick("S22l", "bucket 12/s of 30 before a sliding log of 300 in 30 s, Retry-After date, quick pages, client's ceiling 100/s",
			func(*rand.Rand) Server {
				return &both{leaky{rate: always(12), burst: 29, status: tooMany, hint: dated}, newSliding(300, 30*time.Second, tooMany, dated)}
			}),
	}
}

// sharedAddresses are S23: several hosts at one address, with one limit for all, with a limit
// each, or some of both.
func sharedAddresses() []Scenario {
	common := func(name, doc string, hosts int, rps float64, l limiter) Scenario {
		sc := farHost(name, doc, rps, l)
		sc.Hosts = hosts
		return sc
	}
	own := func(name, doc string, hosts int, rps float64, l limiter) Scenario {
		sc := common(name, doc, hosts, rps*float64(hosts), l)
		sc.Apart = hosts
		return sc
	}
	joining := common("S23e", "20 hosts, one more every 10 s, share nginx 20/s, burst 20, 429", 20, 20, nginx(20, 20, tooMany))
	joining.Joins = 10 * time.Second
	mixed := common("S23f", "5 hosts share nginx 10/s, burst 20, 429, and a sixth has it for itself", 6, 20, nginx(10, 20, tooMany))
	mixed.Apart = 1
	log := slidingLog(100, 10*time.Second, hint{})
	noisy := own("S23m", "5 hosts, 1 % of 503 at random, client's ceiling 20/s", 5, 20, func(rnd *rand.Rand) Server {
		return &flaky{Server: &pages{rnd: rnd}, share: 0.01, status: []int{unavailable}, rnd: rnd}
	})
	noisy.MaxRPS = 20
	minutes := window(fixed{max: 600, window: time.Minute, status: tooMany, hint: hint{form: exact}})
	return []Scenario{
		common("S23a", "5 hosts share nginx 10/s, burst 20, 429", 5, 10, nginx(10, 20, tooMany)),
		common("S23b", "2 hosts share nginx 10/s, burst 20, 503", 2, 10, nginx(10, 20, unavailable)),
		common("S23c", "20 hosts share nginx 20/s, burst 20, 429", 20, 20, nginx(20, 20, tooMany)),
		common("S23d", "100 hosts share nginx 50/s, burst 50, 503", 100, 50, nginx(50, 50, unavailable)),
		joining, mixed,
		common("S23g", "5 hosts share a sliding log of 100 in 10 s, bare 429", 5, 10, log),
		long(common("S23h", "5 hosts share a fixed window of 600 in 60 s, Retry-After", 5, 10, minutes)),
		own("S23i", "20 hosts, nginx 5/s, burst 10, 429, for each", 20, 5, nginx(5, 10, tooMany)),
		own("S23j", "5 hosts, a sliding log of 100 in 10 s, bare 429, for each", 5, 10, log),
		long(own("S23k", "5 hosts, a fixed window of 600 in 60 s, Retry-After, for each", 5, 10, minutes)),
		own("S23l", "2 hosts, nginx 10/s, burst 20, 503, for each", 2, 10, nginx(10, 20, unavailable)),
		noisy,
	}
}
