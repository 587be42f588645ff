package transport

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"

	"golang.org/x/sync/singleflight"

	"github.com/treadlight/crawl/resilience"
)

// FactoryConfig says which clients a [Factory] has.
type FactoryConfig struct {
	// Configure returns the configuration of the client with this name. [Factory.Client] returns its error. It must be
	// safe for concurrent use. It is called again for a name only after an error or [Factory.Invalidate]. Nil is an
	// error.
	Configure func(name string) (ClientConfig, error)
	// MaxClients is the greatest number of clients, which are never forgotten; one more is an error. Zero means 256.
	MaxClients int
	Transport  http.RoundTripper // for clients whose configuration has none; the factory does not close it; nil means a transport made from Base, which the factory closes
	Base       BaseConfig        // configures the factory's own transport; it must be zero if Transport is set
}

const maxClients = 256

// Factory holds clients by name. Each is built at its first use, and shared with its connections, circuits and limits.
// The factory closes them. It is safe for concurrent use.
type Factory struct {
	cfg   FactoryConfig // never changes after NewFactory
	base  *Base         // nil if FactoryConfig.Transport is set
	group singleflight.Group

	mu     sync.Mutex // guards what follows
	closed bool
	built  map[string]*Client
}

// NewFactory returns a factory without clients. An error names the wrong field of cfg.
func NewFactory(cfg FactoryConfig) (*Factory, error) {
	switch {
	case cfg.Configure == nil:
		return nil, errors.New("transport: FactoryConfig.Configure is nil: give a function that knows the clients")
	case cfg.MaxClients < 0:
		return nil, fmt.Errorf("transport: FactoryConfig.MaxClients is %d: use a positive number, or zero for %d", cfg.MaxClients, maxClients)
	case cfg.Transport != nil && cfg.Base != (BaseConfig{}):
		return nil, errors.New("transport: FactoryConfig.Base is set beside a Transport, which it cannot change: remove one of them")
	}
	cfg.MaxClients = cmp.Or(cfg.MaxClients, maxClients)
	f := &Factory{cfg: cfg, built: make(map[string]*Client)}
	if cfg.Transport == nil {
		f.base = NewBase(cfg.Base)
		f.cfg.Transport = f.base
	}
	return f, nil
}

// Client returns the client with this name, and builds it if there is none. It fails if there are too many clients, if
// building fails, and after Close, with [resilience.ErrClosed].
func (f *Factory) Client(name string) (*Client, error) {
	c, err, _ := f.group.Do(name, func() (any, error) {
		if c, err := f.find(name); c != nil || err != nil {
			return c, err
		}
		return f.build(name)
	})
	if err != nil {
		return nil, fmt.Errorf("client %q: %w", name, err)
	}
	return c.(*Client), nil
}

func (f *Factory) find(name string) (*Client, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.closed:
		return nil, resilience.ErrClosed
	case f.built[name] == nil && len(f.built) >= f.cfg.MaxClients:
		return nil, fmt.Errorf("it is one more than FactoryConfig.MaxClients, which is %d", f.cfg.MaxClients)
	}
	return f.built[name], nil
}

func (f *Factory) build(name string) (*Client, error) {
	cfg, err := f.cfg.Configure(name)
	if err != nil {
		return nil, err
	}
	if cfg.Transport == nil && cfg.Base == (BaseConfig{}) {
		cfg.Transport = f.cfg.Transport
	}
	c, err := NewClient(cfg)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed { // closed while the client was built
		return nil, errors.Join(resilience.ErrClosed, c.Close())
	}
	f.built[name] = c
	return c, nil
}

// Invalidate closes the client with this name, if it was built; the next [Factory.Client] builds a new one. Later
// requests with the old one fail. The error is that of closing it.
func (f *Factory) Invalidate(name string) error {
	f.mu.Lock()
	c := f.built[name]
	delete(f.built, name)
	f.mu.Unlock()
	if c == nil {
		return nil
	}
	return c.Close()
}

// Names returns the names of the clients that were built, sorted.
func (f *Factory) Names() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Sorted(maps.Keys(f.built))
}

// Close closes every client and then the factory's own transport. Later calls of Client fail. It may be called again.
func (f *Factory) Close() error {
	f.mu.Lock()
	built := f.built
	f.built, f.closed = nil, true
	f.mu.Unlock()
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(built)) {
		errs = append(errs, built[name].Close())
	}
	if f.base != nil {
		errs = append(errs, f.base.Close())
	}
	return errors.Join(errs...)
}
