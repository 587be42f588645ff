package crawl

import (
	"context"
	"log/slog"

	"github.com/treadlight/crawl/internal/assembly"
)

// The types and functions of a crawl; package assembly has them.
type (
	Settings      = assembly.Settings
	Page          = assembly.Page
	Record        = assembly.Record
	Sink          = assembly.Sink
	Durable       = assembly.Durable
	Position      = assembly.Position
	Snapshot      = assembly.Snapshot
	Event         = assembly.Event
	Change        = assembly.Change
	Exchange      = assembly.Exchange
	Config        = assembly.Config
	Crawler       = assembly.Crawler
	StateConfig   = assembly.StateConfig
	State         = assembly.State
	StateError    = assembly.StateError
	StateView     = assembly.StateView
	KnownURL      = assembly.KnownURL
	Again         = assembly.Again
	FleetError    = assembly.FleetError
	ArchiveConfig = assembly.ArchiveConfig
	ListenConfig  = assembly.ListenConfig
	Console       = assembly.Console
	ExplainConfig = assembly.ExplainConfig
	Explanation   = assembly.Explanation
	ExplainStep   = assembly.ExplainStep
	ExplainScope  = assembly.ExplainScope
	ExplainRobots = assembly.ExplainRobots
	ExplainPace   = assembly.ExplainPace
)

// Homepage is where operators can read what Treadlight is.
const Homepage = assembly.Homepage

// The ends of a crawl and the errors that a caller may want to tell apart.
var (
	ErrSeed        = assembly.ErrSeed
	ErrUnreachable = assembly.ErrUnreachable
	ErrBlocked     = assembly.ErrBlocked
	ErrUnfinished  = assembly.ErrUnfinished
	ErrNotRunning  = assembly.ErrNotRunning
	ErrNoJob       = assembly.ErrNoJob
	ErrJobComplete = assembly.ErrJobComplete
)

// DefaultConfig is a polite crawl of the seeds' hosts.
func DefaultConfig() Config { return assembly.DefaultConfig() }

// New builds a crawl and fetches nothing.
func New(cfg Config) (*Crawler, error) { return assembly.New(cfg) }

// Check reports whether every seed is a URL to begin from.
func Check(seeds ...string) error { return assembly.Check(seeds...) }

// CheckMemory reports what is wrong with the file of ratelimit.remember.
func CheckMemory(s *Settings) error { return assembly.CheckMemory(s) }

// CheckListen reports whether [Listen] would take the address with the token.
func CheckListen(addr, token string) error { return assembly.CheckListen(addr, token) }

// Listen opens the socket of a console.
func Listen(cfg ListenConfig) (*Console, error) { return assembly.Listen(cfg) }

// NewState makes a state in a directory.
func NewState(cfg StateConfig) (*State, error) { return assembly.NewState(cfg) }

// OpenState opens the state of a crawl that is to go on.
func OpenState(cfg StateConfig) (*State, error) { return assembly.OpenState(cfg) }

// OpenAgain opens the state of a crawl for another round.
func OpenAgain(cfg StateConfig, again Again) (*State, error) { return assembly.OpenAgain(cfg, again) }

// ViewState opens a view of the state in a directory.
func ViewState(dir string) (*StateView, error) { return assembly.ViewState(dir) }

// OpenArchive opens a directory for web archives.
func OpenArchive(cfg ArchiveConfig) (Durable, error) { return assembly.OpenArchive(cfg) }

// AwaitJob waits until the job of the settings has URLs to visit.
func AwaitJob(ctx context.Context, settings *Settings, log *slog.Logger) error {
	return assembly.AwaitJob(ctx, settings, log)
}

// Explain tells what a crawl makes of some URLs, and why.
func Explain(ctx context.Context, cfg ExplainConfig, inputs ...string) ([]Explanation, error) {
	return assembly.Explain(ctx, cfg, inputs...)
}
