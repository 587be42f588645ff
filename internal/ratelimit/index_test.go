package ratelimit

import (
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
