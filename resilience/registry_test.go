package resilience_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/treadlight/crawl/resilience"
)

// stand is a policy that notes when it is passed and closed.
type stand[T any] struct {
	name   string
	notes  *[]string
	closed error // what Close returns
}

func (s stand[T]) Execute(ctx context.Context, fn func(context.Context) (T, error)) (T, error) {
	*s.notes = append(*s.notes, "into "+s.name)
	defer func() { *s.notes = append(*s.notes, "out of "+s.name) }()
	return fn(ctx)
}

func (s stand[T]) Close() error {
	*s.notes = append(*s.notes, "close "+s.name)
	return s.closed
}

func TestRegistry(t *testing.T) {
	var r resilience.Registry
	var notes []string
	errClose := errors.New("it sticks")
	a, b := stand[string]{"a", &notes, errClose}, stand[int]{"b", &notes, nil}
	for _, err := range []error{
		resilience.Register[int](&r, "b", b), resilience.Register[string](&r, "a", a),
		resilience.Register[string](&r, "c", stand[string]{"c", &notes, nil}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	wantEqual(t, "Names", r.Names(), []string{"a", "b", "c"})
	if p, err := resilience.Lookup[string](&r, "a"); err != nil || p != resilience.Policy[string](a) {
		t.Errorf("Lookup of a = %v, %v", p, err)
	}
	lookup := func(name string) error {
		_, err := resilience.Lookup[string](&r, name)
		return err
	}
	for want, err := range map[string]error{
		"is taken":               resilience.Register[string](&r, "a", a),
		"want a name":            resilience.Register[string](&r, "", a),
		"and a policy":           resilience.Register[string](&r, "d", nil),
		`there are ["a" "b" "c"`: lookup("d"),
		"stand[int]":             lookup("b"),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one that says %q", err, want)
		}
	}
	if err := r.Remove("c"); err != nil || r.Remove("c") != nil {
		t.Errorf("Remove = %v, want nil, also of what is not there", err)
	}
	if err := r.Close(); !errors.Is(err, errClose) || r.Close() != nil {
		t.Errorf("Close = %v, want that of a, once", err)
	}
	wantEqual(t, "closed", notes, []string{"close c", "close a", "close b"})
	if err := resilience.Register[string](&r, "a", a); !errors.Is(err, resilience.ErrClosed) || !errors.Is(lookup("a"), resilience.ErrClosed) {
		t.Errorf("after Close: Register %v, Lookup %v, want ErrClosed", err, lookup("a"))
	}
}

func TestRegistryConcurrently(t *testing.T) {
	var r resilience.Registry
	var wg sync.WaitGroup
	var taken [8]int
	for i := range taken {
		wg.Go(func() {
			for _, name := range []string{"a", "b", "c"} {
				if resilience.Register[string](&r, name, resilience.Wrap[string]()) == nil {
					taken[i]++
				}
				resilience.Lookup[string](&r, name)
				r.Names()
			}
		})
	}
	wg.Wait()
	sum := 0
	for _, n := range taken {
		sum += n
	}
	if sum != 3 || r.Close() != nil {
		t.Errorf("%d registrations under three names, want 3", sum)
	}
}

// What is replaced is closed; what is refused is not, and stays the caller's.
func TestRegistryReplaces(t *testing.T) {
	var r resilience.Registry
	var notes []string
	errClose := errors.New("it sticks")
	a, b, c := stand[string]{"a", &notes, nil}, stand[int]{"b", &notes, errClose}, stand[string]{"c", &notes, nil}
	if err := resilience.Replace[string](&r, "x", a); err == nil || !strings.Contains(err.Error(), "none to replace") {
		t.Errorf("Replace of what is not there = %v", err)
	}
	if err := resilience.Put[string](&r, "x", a); err != nil {
		t.Errorf("Put of a new name = %v", err)
	}
	if err := resilience.Replace[int](&r, "x", b); err != nil {
		t.Errorf("Replace = %v", err)
	}
	if _, err := resilience.Lookup[int](&r, "x"); err != nil {
		t.Errorf("Lookup of what has replaced another = %v", err)
	}
	if err := resilience.Put[string](&r, "x", c); !errors.Is(err, errClose) {
		t.Errorf("Put = %v, want the error of closing the old one", err)
	}
	if p, err := resilience.Lookup[string](&r, "x"); err != nil || p != resilience.Policy[string](c) {
		t.Errorf("Lookup = %v, %v, want the new one, though the old one closed with an error", p, err)
	}
	wantEqual(t, "closed", notes, []string{"close a", "close b"})
	r.Close()
	for _, err := range []error{resilience.Put[string](&r, "x", a), resilience.Replace[string](&r, "x", a)} {
		if !errors.Is(err, resilience.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	}
	wantEqual(t, "closed", notes, []string{"close a", "close b", "close c"})
}
