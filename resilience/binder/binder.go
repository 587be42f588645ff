package binder

import (
	"context"
	"io"
	"net/http"

	"github.com/treadlight/crawl/internal/fetch/resilience/binder"
	"github.com/treadlight/crawl/resilience"
)

// DocumentMax bounds a document in bytes. One with every key is 2 KiB.
const DocumentMax = binder.DocumentMax

// Backoff is how the pause grows from one try to the next.
type Backoff = binder.Backoff

// BackoffType names a way to grow, as documents are written out with it.
type BackoffType = binder.BackoffType

// The ways to grow.
const (
	BackoffNone         = binder.BackoffNone         // no pause at all
	BackoffConstant     = binder.BackoffConstant     // always Base
	BackoffLinear       = binder.BackoffLinear       // Base times the number of failures
	BackoffExponential  = binder.BackoffExponential  // Base, doubled with each failure
	BackoffDecorrelated = binder.BackoffDecorrelated // random between Base and three times the pause before
)

// Bulkhead bounds the calls under way.
type Bulkhead = binder.Bulkhead

// BulkheadIsolation bounds the calls under way for each key, which for HTTP is the host.
type BulkheadIsolation = binder.BulkheadIsolation

// Chain is a transport with the policies of a document around it, in the default order of
// transport.Layers.
type Chain = binder.Chain

// BindHTTP puts the policies of a document around base, which stays the caller's.
func BindHTTP(m *Model, base http.RoundTripper, o HTTPOptions) (*Chain, error) {
	return binder.BindHTTP(m, base, o)
}

// CircuitBreaker stops calls to what keeps failing.
type CircuitBreaker = binder.CircuitBreaker

// Deps are what policies share with others and no document can say.
type Deps = binder.Deps

// Fallback says when something else is returned in place of what came.
type Fallback = binder.Fallback

// HTTPOptions are what a document cannot say about requests.
type HTTPOptions = binder.HTTPOptions

// Hedging sends a second request when the first is slow.
type Hedging = binder.Hedging

// Live is what is built of the newest good document of a source.
type Live[C io.Closer] = binder.Live[C]

// NewLive loads the first document and builds of it, so that its error is any of the
// source's, of Load's and of build's.
func NewLive[C io.Closer](ctx context.Context, cfg LiveConfig, build func(*Model) (C, error)) (*Live[C], error) {
	return binder.NewLive[C](ctx, cfg, build)
}

// LiveChain is a chain that follows the documents of a source.
type LiveChain = binder.LiveChain

// NewLiveChain loads the first document and binds it.
func NewLiveChain(ctx context.Context, cfg LiveConfig, base http.RoundTripper, o HTTPOptions) (*LiveChain, error) {
	return binder.NewLiveChain(ctx, cfg, base, o)
}

// LiveConfig says where documents come from and what becomes of them.
type LiveConfig = binder.LiveConfig

// LivePolicy is all policies of a document as one that follows the documents of a source.
type LivePolicy[T any] = binder.LivePolicy[T]

// NewLivePolicy is NewLiveChain for calls that give a T.
func NewLivePolicy[T any](ctx context.Context, cfg LiveConfig, o Options[T]) (*LivePolicy[T], error) {
	return binder.NewLivePolicy[T](ctx, cfg, o)
}

// Model is a checked document: a section that is nil was not written, and its policy is
// absent.
type Model = binder.Model

// Load reads a JSON document and returns its checked model.
func Load(data []byte) (*Model, error) {
	return binder.Load(data)
}

// LoadSection is Load of one group of a larger document, whose name is given, or names with
// colons between.
func LoadSection(data []byte, section string) (*Model, error) {
	return binder.LoadSection(data, section)
}

// LoadNamed is the documents that a group of a larger one has by name.
func LoadNamed(data []byte, section string) (map[string]*Model, error) {
	return binder.LoadNamed(data, section)
}

// Read is Load of what r holds, of which it reads no more than a document may have.
func Read(r io.Reader) (*Model, error) {
	return binder.Read(r)
}

// Options are what a document cannot say about calls that give a T.
type Options[T any] = binder.Options[T]

// Policies are those of one document, and as a whole one policy of them all in the default
// order.
type Policies[T any] = binder.Policies[T]

// Bind builds the policies of a document.
func Bind[T any](m *Model, o Options[T]) (*Policies[T], error) {
	return binder.Bind[T](m, o)
}

// BindAll builds the policies of documents and registers each under its name.
func BindAll[T any](models map[string]*Model, options func(name string) Options[T]) (*resilience.Registry, error) {
	return binder.BindAll[T](models, options)
}

// Problem is one thing that is wrong with a document.
type Problem = binder.Problem

// Problems are everything that is wrong with a document, in the order of its lines.
type Problems = binder.Problems

// Retry is how often and how soon a failed call is tried again.
type Retry = binder.Retry

// Source gives the document as it is now.
type Source = binder.Source

// File is the document in a file, which is read when its size, its time of change or the
// file behind the name is another one.
func File(path string) Source { return binder.File(path, nil) }

// Timeout bounds one attempt; what all attempts may take together is the business of the
// caller's context.
type Timeout = binder.Timeout
