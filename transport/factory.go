package transport

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"

	"github.com/treadlight/crawl/resilience"
)

// FactoryConfig says which clients a [Factory] has.
type FactoryConfig struct {
	Clients map[string]ClientConfig // those that are known beforehand, by name
	// Configure gives the client of a name that Clients has not; an error is Client's. It
	// must be safe for concurrent use, and is called again for a name only after it has
	// failed. Nil means that there are no others.
	Configure func(name string) (ClientConfig, error)
	// MaxClients bounds the clients that are built. They are not forgotten, because whoever
	// has one would lose it, so a name too many is an error: names come from configuration,
	// never from input. Zero means 256.
	MaxClients int
	Transport  http.RoundTripper // of the clients that bring none; it stays its owner's; nil means one made of Base, which the factory closes
	Base       BaseConfig        // it must be zero beside a Transport
}

// maxClients is more names than a configuration has, and few enough to be held for ever.
const maxClients = 256

// Factory has clients by name. Each is built once, when it is asked for first; whoever asks
// for the name again gets the same one, and with it the same connections, circuits and
// limits. The clients are the factory's to close. It is safe for concurrent use.
type Factory struct {
	cfg  FactoryConfig // never changes after NewFactory
	base *Base         // nil if it is somebody else's

	mu     sync.Mutex // guards what follows
	closed bool
	built  map[string]*building
}

type building struct {
	once   sync.Once
	client *Client
	err    error
}

// NewFactory returns a factory that has built no client yet. The error names the field of
// cfg that makes no sense.
func NewFactory(cfg FactoryConfig) (*Factory, error) {
	switch {
	case cfg.MaxClients < 0:
		return nil, fmt.Errorf("transport: FactoryConfig.MaxClients is %d: use a positive number, or zero for %d", cfg.MaxClients, maxClients)
	case cfg.MaxClients == 0:
		cfg.MaxClients = maxClients
	}
	if n := len(cfg.Clients); n > cfg.MaxClients {
		return nil, fmt.Errorf("transport: FactoryConfig.Clients has %d names: raise MaxClients, which is %d", n, cfg.MaxClients)
	}
	if cfg.Transport != nil && cfg.Base != (BaseConfig{}) {
		return nil, errors.New("transport: FactoryConfig.Base is set beside a Transport, which it cannot change: remove one of them")
	}
	cfg.Clients = maps.Clone(cfg.Clients)
	f := &Factory{cfg: cfg, built: make(map[string]*building)}
	if cfg.Transport == nil {
		var err error
		if f.base, err = NewBase(cfg.Base); err != nil {
			return nil, err
		}
		f.cfg.Transport = f.base
	}
	return f, nil
}

// Client is the client of that name. It fails for a name that nobody configured, for one
// too many, with the error of building it, and with [resilience.ErrClosed] after Close.
func (f *Factory) Client(name string) (*Client, error) {
	b, err := f.find(name)
	if err != nil {
		return nil, fmt.Errorf("client %q: %w", name, err)
	}
	b.once.Do(func() {
		b.err = errors.New("building it panicked") // until it has not
		b.client, b.err = f.build(name)
	})
	if b.err != nil {
		f.forget(name, b)
		return nil, fmt.Errorf("client %q: %w", name, b.err)
	}
	return b.client, nil
}

func (f *Factory) find(name string) (*building, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil, resilience.ErrClosed
	}
	if b := f.built[name]; b != nil {
		return b, nil
	}
	if _, known := f.cfg.Clients[name]; !known && f.cfg.Configure == nil {
		return nil, fmt.Errorf("no such name; there are %q", slices.Sorted(maps.Keys(f.cfg.Clients)))
	}
	if len(f.built) >= f.cfg.MaxClients {
		return nil, fmt.Errorf("it is one more than FactoryConfig.MaxClients, which is %d", f.cfg.MaxClients)
	}
	b := new(building)
	f.built[name] = b
	return b, nil
}

func (f *Factory) build(name string) (*Client, error) {
	cfg, known := f.cfg.Clients[name]
	if !known {
		var err error
		if cfg, err = f.cfg.Configure(name); err != nil {
			return nil, err
		}
	}
	if cfg.Transport == nil && cfg.Base == (BaseConfig{}) {
		cfg.Transport = f.cfg.Transport
	}
	return NewClient(cfg)
}

// Invalidate closes the client of that name, so that the next [Factory.Client] builds
// another one, of what Configure then says. Whoever holds the old one finds it closed. A
// name that has not been built is left as it is. The error is that of closing.
func (f *Factory) Invalidate(name string) error {
	f.mu.Lock()
	b := f.built[name]
	delete(f.built, name)
	f.mu.Unlock()
	if b == nil {
		return nil
	}
	return b.close()
}

// close closes the client, after it has been built if that is under way.
func (b *building) close() error {
	b.once.Do(func() { b.err = resilience.ErrClosed })
	if b.client == nil {
		return nil
	}
	return b.client.Close()
}

func (f *Factory) forget(name string, b *building) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.built[name] == b {
		delete(f.built, name)
	}
}

// Names are those of the clients that are configured or have been built, sorted.
func (f *Factory) Names() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	names := make(map[string]bool, len(f.built))
	for name := range f.cfg.Clients {
		names[name] = true
	}
	for name := range f.built {
		names[name] = true
	}
	return slices.Sorted(maps.Keys(names))
}

// Close closes every client, those being built too, and then the factory's own transport.
// Later calls of Client fail. It may be called again.
func (f *Factory) Close() error {
	f.mu.Lock()
	built := f.built
	f.built, f.closed = nil, true
	f.mu.Unlock()
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(built)) {
		errs = append(errs, built[name].close())
	}
	if f.base != nil {
		errs = append(errs, f.base.Close())
	}
	return errors.Join(errs...)
}
