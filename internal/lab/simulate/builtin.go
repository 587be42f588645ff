package simulate

import (
	"bytes"
	"cmp"
	_ "embed" // of the scenarios
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"syscall"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/treadlight/crawl/internal/clock"
)

//go:embed scenarios.yaml
var builtin []byte

// Scenarios returns the built-in scenarios: the usual limiters, failing hosts, and hosts that mislead a controller.
// Each call makes new ones.
func Scenarios() []Scenario {
	var specs []spec
	dec := yaml.NewDecoder(bytes.NewReader(builtin))
	dec.KnownFields(true)
	if err := dec.Decode(&specs); err != nil {
		panic(fmt.Sprintf("simulate: scenarios.yaml: %v", err)) // the file is part of the program
	}
	scs := make([]Scenario, len(specs))
	for i := range specs {
		scs[i] = specs[i].scenario()
	}
	return scs
}

const (
	tooMany     = http.StatusTooManyRequests
	unavailable = http.StatusServiceUnavailable
)

type spec struct {
	Scenario `yaml:",inline"`

	Near   bool          // the host is on the same machine, with static pages and a busy client
	RTT    time.Duration // zero means that Near decides
	Page   page
	Before limit // a bucket in front of Limit
	Limit  limit // zero means none
	Fails  struct {
		Share  float64
		Status []int
	}
	Down spans
	Says struct { // the response while it is down; zero means that it refuses connections
		Status int
		Delay  time.Duration
	}
	Jail struct { // like fail2ban
		After int
		For   time.Duration
	}
}

// page is the time to make a page, which is lognormal. Only distant hosts have one.
type page struct {
	Median time.Duration
	Sigma  float64
	Slower steps // factor of the median; nil means 1
}

// far returns the link to a distant host. Together with its pages a response takes 150 ms.
func far() Link { return Link{RTT: 60 * time.Millisecond, Jitter: 0.1} }

func (s *spec) scenario() Scenario {
	sc := s.Scenario
	sc.Link, sc.New = far(), s.server
	if s.Near {
		sc.Link = Link{RTT: 400 * time.Microsecond, Jitter: 0.1, Contention: true}
	}
	if s.RTT > 0 {
		sc.Link.RTT = s.RTT
	}
	servers := float64(s.Apart)
	if s.Apart < max(s.Hosts, 1) {
		servers++ // the one that the others share
	}
	sc.Capacity = func(t time.Duration) float64 {
		if _, down := s.Down.at(t); down {
			return 0
		}
		if s.Limit.Kind == "" {
			return s.MaxRPS * servers
		}
		return s.Limit.rps(t) * servers
	}
	return sc
}

func (s *spec) server(rnd *rand.Rand) Server {
	server := s.Limit.server(rnd)
	if b := &s.Before; b.Kind != "" {
		server = &both{*b.bucket(), server}
	}
	if s.Fails.Share > 0 {
		server = &flaky{Server: &pages{rnd: rnd}, share: s.Fails.Share, status: s.Fails.Status, rnd: rnd}
	}
	if s.Down != nil {
		says := Answer{Status: s.Says.Status, Delay: s.Says.Delay}
		if says == (Answer{}) {
			says.Err = syscall.ECONNREFUSED
		}
		server = &outage{Server: server, when: s.Down, says: says}
	}
	if s.Jail.After > 0 {
		server = &jail{Server: server, max: s.Jail.After, term: s.Jail.For}
	}
	p := s.Page
	if p.Sigma == 0 {
		if s.Near || s.Limit.Kind == "queue" {
			return server
		}
		p.Sigma = 0.3
	}
	p.Median = cmp.Or(p.Median, 85*time.Millisecond)
	return &pages{Server: server, median: p.Median, sigma: p.Sigma, factor: p.Slower, rnd: rnd}
}

// limit is a limiter or a queue, by its kind. Each kind uses some of the fields.
type limit struct {
	Kind    string
	Rate    steps   // of leaky: requests per second
	Burst   float64 // of leaky: requests above the rate
	Delay   bool    // of leaky: without "nodelay"
	N       int     // requests in Per, or workers or connections of Per each
	Per     time.Duration
	Opening opening       // of fixed
	Block   time.Duration // of evasive and whole
	Slower  steps         // of queue: factor of Per
	Status  int           // of a refusal; zero means 429
	Hint    hint
	Quota   bool // in each response
}

func (l *limit) bucket() *leaky {
	return &leaky{rate: l.Rate, burst: l.Burst, delay: l.Delay, status: l.status(), hint: l.Hint}
}

func (l *limit) status() int {
	return cmp.Or(l.Status, tooMany)
}

// server returns a server for a run; nil means no limit. A fixed window on the clock has a random phase, so that a run
// does not begin with a whole window.
func (l *limit) server(rnd *rand.Rand) Server {
	switch l.Kind {
	case "leaky":
		return l.bucket()
	case "fixed":
		s := &fixed{limit: l}
		if l.Opening == onTheClock {
			s.phase = time.Duration(rnd.Float64() * float64(l.Per))
		}
		return s
	case "log":
		return &sliding{limit: l}
	case "approximate":
		return &approximate{limit: l}
	case "counter":
		return &counter{approximate{limit: l}}
	case "clocked":
		return &clocked{approximate: approximate{limit: l}}
	case "evasive":
		return &evasive{limit: l}
	case "whole":
		return &whole{limit: l}
	case "connections":
		return &connections{limit: l}
	case "queue":
		return &queue{limit: l, free: make([]clock.Instant, l.N), rnd: rnd}
	}
	return nil
}

// refuse returns the answer to a request that would have to wait for wait.
func (l *limit) refuse(now clock.Instant, wait time.Duration) Answer {
	return Answer{Status: l.status(), Refused: true, RetryAfter: l.Hint.after(now, wait)}
}

func (l *limit) rps(t time.Duration) float64 {
	switch l.Kind {
	case "leaky":
		return l.Rate.at(t)
	case "queue":
		return float64(l.N) / (l.Per.Seconds() * l.Slower.at(t))
	case "clocked":
		return float64(l.N) / (l.Per + time.Second).Seconds()
	}
	return float64(l.N) / l.Per.Seconds()
}

// UnmarshalYAML reads one value, or a list of values that follow one another every five minutes.
func (s *steps) UnmarshalYAML(n *yaml.Node) error {
	values := make([]float64, 1)
	err := n.Decode(&values[0])
	if n.Kind == yaml.SequenceNode {
		err = n.Decode(&values)
	}
	for i, v := range values {
		*s = append(*s, step{time.Duration(i) * 5 * time.Minute, v})
	}
	return err
}

// UnmarshalText reads "exact", "date", or a constant time.
func (o *hint) UnmarshalText(text []byte) (err error) {
	switch string(text) {
	case "exact":
		o.form = exact
	case "date":
		o.form = wholeDate
	default:
		o.form = constant
		o.d, err = time.ParseDuration(string(text))
	}
	return err
}

// UnmarshalText reads "clock", "request" or "second".
func (o *opening) UnmarshalText(text []byte) error {
	*o = map[string]opening{"clock": onTheClock, "request": byRequest, "second": byWholeSecond}[string(text)]
	return nil
}

// Random draws a host: a limiter or a queue at 0.2 to 2000 requests per second, with windows of 1 to 300 s, any form of
// refusal, and latencies of 0.3 to 500 ms. The same seed always draws the same host.
func Random(seed uint64) Scenario {
	g := draw{rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15))} // any second word will do
	rps := g.logUniform(0.2, 2000)
	link := Link{RTT: time.Duration(g.logUniform(0.3, 500) * 1e6), Jitter: g.Float64() * 0.3}
	link.Contention = link.RTT < 2*time.Millisecond // it has no visible effect otherwise
	status := tooMany
	if g.IntN(2) == 0 {
		status = unavailable
	}
	l, what := g.limit(rps)
	l.Status = status
	sc := Scenario{Name: fmt.Sprintf("R%d", seed), Link: link, Capacity: l.rps, New: l.server}
	if l.Kind != "queue" && l.Per >= time.Minute {
		sc.Duration = 30 * time.Minute
	}
	sc.Doc = fmt.Sprintf("%s, %d, RTT %v", what, status, link.RTT.Round(100*time.Microsecond))
	return sc
}

type draw struct{ *rand.Rand }

func (g draw) logUniform(low, high float64) float64 {
	return low * math.Pow(high/low, g.Float64())
}

func (g draw) hint() hint {
	switch g.IntN(5) {
	case 0:
		return hint{form: exact}
	case 1:
		return hint{form: wholeDate}
	case 2:
		return hint{constant, time.Duration(1+g.IntN(60)) * time.Second}
	}
	return hint{}
}

// limit draws a limiter or a queue, and describes it. A window holds at least one request, and no log has more than a
// million.
func (g draw) limit(rps float64) (l *limit, what string) {
	w := time.Duration(math.Round(g.logUniform(max(1, 1/rps), 300))) * time.Second
	n := max(1, int(rps*w.Seconds()))
	o, burst := g.hint(), math.Floor(g.logUniform(1, 101)-1)
	windowed := func(kind string, l limit, name string) (*limit, string) {
		l.Kind, l.N, l.Per, l.Hint = kind, n, w, o
		return &l, fmt.Sprintf("%s %d in %v%v", name, n, w, o)
	}
	switch g.IntN(8) {
	case 0:
		o = hint{constant, time.Duration(1+g.IntN(60)) * time.Second}
		fallthrough
	case 2:
		return &limit{Kind: "leaky", Rate: always(rps), Burst: burst, Hint: o}, fmt.Sprintf("bucket %.4g/s, burst %.0f%v", rps, burst, o)
	case 1:
		return &limit{Kind: "leaky", Rate: always(rps), Burst: burst, Delay: true}, fmt.Sprintf("delaying bucket %.4g/s, burst %.0f", rps, burst)
	case 3:
		return windowed("fixed", limit{Opening: opening(g.IntN(3))}, "fixed")
	case 4:
		return windowed("fixed", limit{Quota: true}, "fixed, quota headers,")
	case 5:
		return windowed("log", limit{}, "sliding log")
	case 6:
		return windowed("approximate", limit{}, "sliding counter")
	}
	l = &limit{Kind: "queue", N: 1 + g.IntN(32), Per: time.Duration(g.logUniform(5, 500) * 1e6)}
	return l, fmt.Sprintf("queue of %d workers, %v", l.N, l.Per.Round(time.Millisecond))
}

func (o hint) String() string {
	switch o.form {
	case exact:
		return ", Retry-After"
	case constant:
		return fmt.Sprintf(", Retry-After %v", o.d)
	case wholeDate:
		return ", Retry-After date"
	case silent:
	}
	return ""
}
