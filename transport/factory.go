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
	// Configure returns the configuration of a name; an error is Client's. Safe for concurrent use. It is called again
	// for a name only after an error. Nil is an error.
	Configure func(name string) (ClientConfig, error)
	// MaxClients bounds the clients, which are never forgotten; one more is an error. Zero: 256.
	MaxClients int
	Transport  http.RoundTripper // of the clients that bring none; it stays its owner's; nil means one made of Base, which the factory closes
	Base       BaseConfig        // it must be zero beside a Transport
}

const maxClients = 256

// Factory has clients by name, each built at the first request and shared, with its connections, circuits and limits.
// The factory closes them. Safe for concurrent use.
type Factory struct {
	cfg   FactoryConfig // never changes after NewFactory
	base  *Base         // nil if it is somebody else's
	group singleflight.Group

	mu     sync.Mutex // guards what follows
	closed bool
	built  map[string]*Client
}

// NewFactory returns a factory without clients. The error names the wrong field of cfg.
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

// Client is the client of that name. It fails for one too many, if building fails, and with [resilience.ErrClosed]
// after Close.
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
	if f.closed { // while it was built
		return nil, errors.Join(resilience.ErrClosed, c.Close())
	}
	f.built[name] = c
	return c, nil
}

// Invalidate closes the client of that name, if built; the next [Factory.Client] builds a new one. Holders find the
// old one closed. The error is that of closing.
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

// Names are those of the clients that have been built, sorted.
func (f *Factory) Names() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Sorted(maps.Keys(f.built))
}

// Close closes every client, then the own transport. Later Client calls fail. It may be called again.
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
