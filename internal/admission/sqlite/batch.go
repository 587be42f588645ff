package sqlite

import (
	"github.com/treadlight/crawl/internal/admission"
	"github.com/treadlight/crawl/internal/store/sqlitedb"
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
	states  []admission.State
	places  []int
}

func newBatch(f *file) *batch {
	return &batch{file: f, index: map[string]int{}}
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
	if err := e.read(b.file.get); err != nil {
		return 0, err
	}
	b.entries = append(b.entries, e)
	b.index[key] = len(b.entries) - 1
	return len(b.entries) - 1, nil
}

// read fills in what the row says, if there is one.
func (e *entry) read(get *sqlitedb.Stmt) (err error) {
	get.Text(1, e.key)
	if e.known, err = get.Step(); !e.known {
		return err
	}
	e.window = get.ColumnIsNull(0)
	e.state = admission.State{
		Tokens: get.ColumnFloat(0), Current: get.ColumnInt(1), Previous: get.ColumnInt(2),
		At: admission.Micros(get.ColumnInt(3)),
	}
	get.Reset()
	return nil
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
		b.file.drop.Text(1, name)
		if err := b.file.drop.Run(); err != nil {
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
		if err := e.write(b.file.put, b.now); err != nil {
			return err
		}
	}
	return nil
}

// write writes the row. Only one that is new takes the time it was made.
func (e *entry) write(put *sqlitedb.Stmt, now admission.Micros) error {
	put.Text(1, e.key)
	if e.window {
		put.Null(2)
	} else {
		put.Float(2, e.state.Tokens)
	}
	put.Int(3, e.state.Current)
	put.Int(4, e.state.Previous)
	put.Int(5, int64(e.state.At))
	put.Int(6, int64(e.expires))
	put.Int(7, int64(now))
	return put.Run()
}
