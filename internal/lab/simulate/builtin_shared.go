package simulate

import (
	"math/rand/v2"
	"time"
)

// sharedAddresses are S23: several hosts at one address, with one limit for all, with a
// limit each, or some of both.
func sharedAddresses() []Scenario {
	common := func(name, doc string, hosts int, rps float64, limiter func(*rand.Rand) Server) Scenario {
		sc := farHost(name, doc, rps, limiter)
		sc.Hosts = hosts
		return sc
	}
	own := func(name, doc string, hosts int, rps float64, limiter func(*rand.Rand) Server) Scenario {
		sc := common(name, doc, hosts, rps*float64(hosts), limiter)
		sc.Apart = hosts
		return sc
	}
	joining := common("S23e", "20 hosts, one more every 10 s, share nginx 20/s, burst 20, 429", 20, 20, nginx(20, 20, tooMany))
	joining.Joins = 10 * time.Second
	mixed := common("S23f", "5 hosts share nginx 10/s, burst 20, 429, and a sixth has it for itself", 6, 20, nginx(10, 20, tooMany))
	mixed.Apart = 1
	log := func(*rand.Rand) Server { return newSliding(100, 10*time.Second, tooMany, order{}) }
	broken := func(rnd *rand.Rand) Server {
		return &flaky{Server: &pages{rnd: rnd}, share: 0.01, status: []int{unavailable}, rnd: rnd}
	}
	noisy := own("S23m", "5 hosts, 1 % of 503 at random, client's ceiling 20/s", 5, 20, broken)
	noisy.MaxRPS = 20
	minutes := fixed{max: 600, window: time.Minute, status: tooMany, order: order{form: exact}}
	return []Scenario{
		common("S23a", "5 hosts share nginx 10/s, burst 20, 429", 5, 10, nginx(10, 20, tooMany)),
		common("S23b", "2 hosts share nginx 10/s, burst 20, 503", 2, 10, nginx(10, 20, unavailable)),
		common("S23c", "20 hosts share nginx 20/s, burst 20, 429", 20, 20, nginx(20, 20, tooMany)),
		common("S23d", "100 hosts share nginx 50/s, burst 50, 503", 100, 50, nginx(50, 50, unavailable)),
		joining, mixed,
		common("S23g", "5 hosts share a sliding log of 100 in 10 s, bare 429", 5, 10, log),
		long(common("S23h", "5 hosts share a fixed window of 600 in 60 s, Retry-After", 5, 10, window(minutes))),
		own("S23i", "20 hosts, nginx 5/s, burst 10, 429, for each", 20, 5, nginx(5, 10, tooMany)),
		own("S23j", "5 hosts, a sliding log of 100 in 10 s, bare 429, for each", 5, 10, log),
		long(own("S23k", "5 hosts, a fixed window of 600 in 60 s, Retry-After, for each", 5, 10, window(minutes))),
		own("S23l", "2 hosts, nginx 10/s, burst 20, 503, for each", 2, 10, nginx(10, 20, unavailable)),
		noisy,
	}
}
