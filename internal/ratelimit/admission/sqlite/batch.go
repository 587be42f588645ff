package sqlite

import (
	"database/sql/driver"

	"github.com/treadlight/crawl/internal/ratelimit/admission"
)

// entry is a row, as a transaction has it.
type entry struct {
	key     string
	known   bool // there is a row that says something
	window  bool // what it says is about a window; about a plan of another kind that is nothing
	state   admission.State
	expires admission.Micros
	dirty   bool // it is to be written
}

// batch is the decisions of one transaction. Each row is read once and written once,
// however many of them it is for.
type batch struct {
	file    *file
	now     admission.Micros // the same for all
	entries []entry
	index   map[string]int // into entries, by key
	row     []driver.Value
	states  []admission.State
	places  []int
}

func newBatch(f *file) *batch {
	return &batch{file: f, index: map[string]int{}, row: make([]driver.Value, 4)}
}

// reset prepares for the next transaction. The time is read while it holds the lock, so
// that processes with one clock write in its order.
func (b *batch) reset(now admission.Micros) {
	b.now = now
	clear(b.entries)
	b.entries = b.entries[:0]
	clear(b.index)
}

// rowKey is injective: there is no colon in the name of a plan.
func rowKey(p *admission.Plan, key string) string { return p.Name + ":" + key }

// find is the index of the entry with this key, which is read if it was not yet.
func (b *batch) find(key string) (int, error) {
	if i, ok := b.index[key]; ok {
		return i, nil
	}
	e := entry{key: key}
	found, err := b.file.get.row(b.row, key)
	if err != nil {
		return 0, err
	}
	if found {
		e.known = true
		tokens, bucket := b.row[0].(float64)
		e.window = !bucket
		e.state.Tokens = tokens
		e.state.Current, _ = b.row[1].(int64) // the table is strict: they are no others
		e.state.Previous, _ = b.row[2].(int64)
		at, _ := b.row[3].(int64)
		e.state.At = admission.Micros(at)
	}
	b.entries = append(b.entries, e)
	b.index[key] = len(b.entries) - 1
	return len(b.entries) - 1, nil
}

// take decides, and charges the entries.
func (b *batch) take(key string, plans []admission.Plan, n int64) (admission.Result, error) {
	b.states, b.places = b.states[:0], b.places[:0]
	for i := range plans {
		p := &plans[i]
		place, err := b.find(rowKey(p, key))
		if err != nil {
			return admission.Result{}, err
		}
		state := p.Fresh(b.now)
		if e := &b.entries[place]; e.known && e.window == (p.Window != 0) {
			state = e.state
		}
		b.states, b.places = append(b.states, state), append(b.places, place)
	}
	result := admission.TakeAll(b.states, plans, b.now, n)
	if result.Allowed && n > 0 {
		for i := range plans {
			b.entries[b.places[i]].charge(&plans[i], b.states[i], b.now)
		}
	}
	return result, nil
}

// charge puts a new state in. It is over its plan's TTL from now, or, if the clock went
// back, from the time it is for.
func (e *entry) charge(p *admission.Plan, state admission.State, now admission.Micros) {
	e.known, e.dirty = true, true
	e.window = p.Window != 0
	e.state = state
	e.expires = max(now, state.At) + admission.Micros(p.TTL().Microseconds())
}

// remove forgets what key has used under plans.
func (b *batch) remove(key string, plans []admission.Plan) error {
	for i := range plans {
		name := rowKey(&plans[i], key)
		if err := b.file.drop.exec(name); err != nil {
			return err
		}
		place, ok := b.index[name]
		if !ok {
			place = len(b.entries)
			b.entries = append(b.entries, entry{})
			b.index[name] = place
		}
		b.entries[place] = entry{key: name}
	}
	return nil
}

// write writes what was charged.
func (b *batch) write() error {
	for i := range b.entries {
		e := &b.entries[i]
		if !e.dirty {
			continue
		}
		var tokens driver.Value // NULL
		if !e.window {
			tokens = e.state.Tokens
		}
		if err := b.file.put.exec(e.key, tokens, e.state.Current, e.state.Previous,
			int64(e.state.At), int64(e.expires), int64(b.now)); err != nil {
			return err
		}
	}
	return nil
}
