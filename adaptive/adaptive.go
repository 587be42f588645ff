package adaptive

import (
	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/internal/ratelimit/header"
)

// ErrCircuitOpen is what a CircuitOpenError is: the domain's breaker lets nobody pass at present.
var ErrCircuitOpen = ratelimit.ErrCircuitOpen

// ErrTooManyCeilings is what SetCeiling returns when as many domains have one as may.
var ErrTooManyCeilings = ratelimit.ErrTooManyCeilings

// ErrTooManyWaiters means that Config.MaxWaiters calls wait for the domain already.
var ErrTooManyWaiters = ratelimit.ErrTooManyWaiters

// Limiter is the engine: a [RateLimiter] with what else there is to tell it and to ask.
type Limiter = ratelimit.AdaptiveRateLimiter

// New returns a limiter.
func New(cfg Config) (*Limiter, error) { return ratelimit.New(cfg) }

// CapSnapshot is one of the user's hard limits and how it stands.
type CapSnapshot = ratelimit.CapSnapshot

// CircuitOpenError is a denial by a domain's breaker.
type CircuitOpenError = ratelimit.CircuitOpenError

// Config says how a Limiter behaves.
type Config = ratelimit.Config

// DefaultConfig returns a limiter's configuration with every default written out.
func DefaultConfig() Config { return ratelimit.DefaultConfig() }

// DomainSnapshot is the state of one domain.
type DomainSnapshot = ratelimit.DomainSnapshot

// Event is something that changed how fast a domain is asked, or whether it is.
type Event = ratelimit.Event

// Feedback is what became of one request.
type Feedback = ratelimit.Feedback

// GroupSnapshot is what a domain shares with others.
type GroupSnapshot = ratelimit.GroupSnapshot

// HostMemory is what is known of a domain in a form that outlives the process: its times are wall times.
type HostMemory = ratelimit.HostMemory

// HostRule is what holds for the domains it matches in place of the global fields.
type HostRule = ratelimit.HostRule

// Learned is the part of a HostMemory that is believed for a day: what a strategy remembers, but for obligations.
type Learned = ratelimit.Learned

// SharedTokens counts the tokens of budgets that processes share: Take charges n tokens of the
// bucket of a key, all of them or none.
type SharedTokens = ratelimit.SharedTokens

// SharedBucket is a token bucket that processes share: its Name, its Capacity (1 to 1<<40) and its
// Rate in tokens per second.
type SharedBucket = ratelimit.SharedBucket

// TokensTaken is what became of a question for tokens: whether they were Allowed, how many are
// Remaining, and the Wait until as many are there, which may be [WaitForever].
type TokensTaken = ratelimit.TokensTaken

// WaitForever is a wait that time does not end.
const WaitForever = ratelimit.WaitForever

// Limit is what a request waits for.
type Limit = ratelimit.Limit

// The limits, from none to the widest.
const (
	LimitNone              = ratelimit.LimitNone              // nothing: it may go
	LimitStart             = ratelimit.LimitStart             // the rate a host starts with: nothing has been learned yet
	LimitLearned           = ratelimit.LimitLearned           // the rate that was learned
	LimitCrawlDelay        = ratelimit.LimitCrawlDelay        // robots.txt
	LimitRetryAfter        = ratelimit.LimitRetryAfter        // the server's order to wait
	LimitRule              = ratelimit.LimitRule              // the user: a delay, or the ceiling of the rate
	LimitBreaker           = ratelimit.LimitBreaker           // an open breaker, or a half-open one whose probe is out
	LimitGlobal            = ratelimit.LimitGlobal            // the rate of all domains together
	LimitShared            = ratelimit.LimitShared            // the rate of the domains behind one address, or of one registrable domain
	LimitCap               = ratelimit.LimitCap               // a cap of the user's rule for the domain
	LimitQuota             = ratelimit.LimitQuota             // the quota of the user's rule: it is used up
	LimitGlobalConcurrency = ratelimit.LimitGlobalConcurrency // the requests that all domains together may have out
	LimitGlobalBytes       = ratelimit.LimitGlobalBytes       // the bytes per second of all domains together
)

// LimiterSnapshot is the state of a limiter at one moment.
type LimiterSnapshot = ratelimit.LimiterSnapshot

// Permit is the right to send one request.
type Permit = ratelimit.Permit

// Quota is what a server says is left of one quota: of a [Feedback].
type Quota = header.Quota

// RateLimiter mediates the admission of requests, domain by domain.
type RateLimiter = ratelimit.RateLimiter

// Rules are the part of a Config that may change while requests are under way.
type Rules = ratelimit.Rules

// WaitError is the answer to a caller whose context ends before its turn comes; it is given
// at once instead of after a wait in vain.
type WaitError = ratelimit.WaitError

// Domain is the name under which a URL's host has its limits: lower case, in the ASCII form of IDNA, without a
// trailing dot and without the port if it is 80 or 443, so that http and https share one budget.
func Domain(host string) string { return ratelimit.Domain(host) }
