package ratelimit

import (
	"fmt"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

// The index is a set of states by identity, whatever was put in and taken out, also
// when tags collide.
func TestIndexIsASet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var x index
		model := map[identity]*state{}
		for range rapid.IntRange(0, 200).Draw(t, "steps") {
			// Few tags and few slots: collisions of both kinds.
			id := identity{uint64(rapid.IntRange(0, 7).Draw(t, "tag"))<<1 | 1, uint64(rapid.IntRange(0, 9).Draw(t, "check"))}
			if s := model[id]; s != nil {
				x.remove(id.tag, s)
				delete(model, id)
			} else {
				model[id] = &state{check: id.check}
				x.put(id.tag, model[id])
			}
			for tag := range uint64(8) {
				for check := range uint64(10) {
					id := identity{tag<<1 | 1, check}
					if got := x.get(id); got != model[id] {
						t.Fatalf("get(%v) = %p, want %p", id, got, model[id])
					}
				}
			}
			if x.live != len(model) {
				t.Fatalf("live = %d, want %d", x.live, len(model))
			}
		}
	})
}

// Readers take no lock, so what a reader finds while a writer works must be a state
// that belongs to the identity it asked for.
func TestIndexReadersBesideWriter(t *testing.T) {
	l := mustNew(t, simplest())
	ids := make([]identity, 500)
	for i := range ids {
		ids[i] = l.identify(fmt.Sprintf("h%d.test", i))
	}
	var x index
	var readers sync.WaitGroup
	stop := make(chan struct{})
	for range 4 {
		readers.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				id := ids[i%len(ids)]
				if s := x.get(id); s != nil && s.check != id.check {
					t.Errorf("get(%v) = the state of %v", id, s.check)
				}
			}
		})
	}
	for range 20 {
		states := make([]*state, len(ids))
		for i, id := range ids {
			states[i] = &state{check: id.check}
			x.put(id.tag, states[i])
		}
		for i, id := range ids {
			if x.get(id) != states[i] {
				t.Errorf("get(%v) is not what was put", id)
			}
			x.remove(id.tag, states[i])
		}
	}
	close(stop)
	readers.Wait()
}
