// Package backend lets a part that needs a large library be linked only by programs that import it: the package of an
// interface has a [Slot] for who implements it, and the implementation enters itself in an init function.
package backend

const module = "github.com/treadlight/crawl/"

// Slot has room for one T. It is filled by init functions, and only read after that.
type Slot[T any] struct {
	needs  string
	public string
	filled bool
	impl   T
}

// New returns an empty slot for what needs something, "a state on disk", of which a program has to import a public
// package, "sqlite".
func New[T any](needs, public string) *Slot[T] { return &Slot[T]{needs: needs, public: public} }

// Register fills the slot. It is for init functions; a second one panics.
func (s *Slot[T]) Register(impl T) {
	if s.filled {
		panic("backend: two packages register what " + module + s.public + " is for")
	}
	s.filled, s.impl = true, impl
}

// Get returns what fills the slot, or a [*MissingError].
func (s *Slot[T]) Get() (impl T, err error) {
	if !s.filled {
		return impl, &MissingError{Needs: s.needs, Import: module + s.public}
	}
	return s.impl, nil
}

// MissingError says that a program does not import what something needs.
type MissingError struct {
	Needs  string // what needs it, such as "a state on disk"
	Import string // the path of the package
}

func (e *MissingError) Error() string {
	return e.Needs + " needs a package that this program does not import: add import _ \"" + e.Import + "\""
}
