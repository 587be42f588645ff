package realserver

import "testing"

// Kind is a server with a limit, described. All its limits are per client address.
type Kind struct {
	// Name is a word for tables and test names.
	Name string
	// Rule is what its configuration says.
	Rule string
	// Nominal is what that comes to, in requests per second.
	Nominal float64
	// Available is the most requests per second that any client can have in the long
	// run; it differs from Nominal where Why says so.
	Available float64
	// Why is the reason for the difference, empty if there is none.
	Why string
	// AtOnce is how many requests a rested server admits before time has to pass.
	AtOnce int
	// InFlight is how many requests it takes at a time; zero means any number.
	InFlight int
	// Status is what a refused request gets.
	Status int
	// RetryAfter is whether a refusal carries one.
	RetryAfter bool
	// Fast is whether the limit is so high that measuring takes the whole machine.
	Fast bool

	recipe recipe
}

// Start runs the server until the test ends. A program or module that is not installed
// ends the test as [Need] says; a server that does not start fails it.
func (k *Kind) Start(tb testing.TB) *Server {
	tb.Helper()
	return start(tb, k.recipe)
}

// Kinds are the limits that tests are made for, one of each sort: buckets that hold
// little and much, queues, windows that are fixed, counted in parts and kept in full, a
// bound of concurrency, and a lockout that every request renews.
func Kinds() []Kind {
	return []Kind{
		{
			Name: "nginx-2", Rule: "limit_req 2 r/s, burst 5 nodelay: 429", Nominal: 2, Available: 2, AtOnce: 6, Status: 429,
			recipe: nginxLimit("2r/s", "burst=5 nodelay", "limit_req_status 429;"),
		},
		{
			Name: "nginx-20", Rule: "limit_req 20 r/s, burst 5 nodelay: 429", Nominal: 20, Available: 20, AtOnce: 6, Status: 429,
			recipe: nginxLimit("20r/s", "burst=5 nodelay", "limit_req_status 429;"),
		},
		{
			Name: "nginx-20-503", Rule: "limit_req 20 r/s, burst 5 nodelay: 503", Nominal: 20, Available: 20, AtOnce: 6, Status: 503,
			recipe: nginxLimit("20r/s", "burst=5 nodelay", ""),
		},
		{
			Name: "nginx-20-delay", Rule: "limit_req 20 r/s, burst 5 queued: 429", Nominal: 20, Available: 20, AtOnce: 6, Status: 429,
			recipe: nginxLimit("20r/s", "burst=5", "limit_req_status 429;"),
		},
		{
			Name: "nginx-20-queue", Rule: "limit_req 20 r/s, burst 20 queued: 503", Nominal: 20, Available: 20, AtOnce: 21, Status: 503,
			recipe: nginxLimit("20r/s", "burst=20", ""),
		},
		{
			Name: "nginx-200", Rule: "limit_req 200 r/s, burst 20 nodelay: 503", Nominal: 200, Available: 200, AtOnce: 21, Status: 503, Fast: true,
			recipe: nginxLimit("200r/s", "burst=20 nodelay", ""),
		},
		{
			Name: "nginx-conn", Rule: "limit_conn 4, each answer takes 200 ms: 503", Nominal: 20, Available: 20, AtOnce: 4, InFlight: 4, Status: 503,
			recipe: nginxConcurrency(),
		},
		{
			Name: "haproxy", Rule: "stick-table, > 200 in 10 s: 429, Retry-After 10", Nominal: 20, Available: 20, AtOnce: 200, Status: 429, RetryAfter: true,
			recipe: haproxy(haproxyConf),
		},
		{
			Name: "mod_qos", Rule: "200 per 10 s: 503", Nominal: 20, Available: 199.0 / 11, AtOnce: 199, Status: 503,
			Why:    "it refuses the 200th, and the window lasts 11 whole seconds",
			recipe: modQoS(),
		},
		{
			Name: "mod_evasive", Rule: "> 20 in a second: 403 for 10 s, renewed", Nominal: 20, Available: 20, AtOnce: 20, Status: 403,
			recipe: modEvasive(),
		},
		{
			Name: "varnish", Rule: "vsthrottle, bucket of 200 per 10 s: 429", Nominal: 20, Available: 20, AtOnce: 200, Status: 429,
			recipe: varnish(),
		},
		{
			Name: "flask-limiter", Rule: "moving window, 200 per 10 s: 429, quota headers", Nominal: 20, Available: 20, AtOnce: 200, Status: 429, RetryAfter: true,
			recipe: flask(),
		},
	}
}
