package disk

import "github.com/treadlight/crawl/internal/frontier"

type kind uint8

const (
	opPut kind = iota
	opDone
	opSpent
	opDo    // do stores something else, or answers a Load or Activate
	opOrder // waits until all calls before it are committed and do has run; without do, until they are on disk
)

// op is one call that waits to be written. It is a value and not a closure, as there is one for each link that is
// found.
type op struct {
	kind    kind
	dormant bool // for opPut
	host    string
	item    frontier.Item
	visit   *frontier.Visit // for opDone
	do      func(*writer) error
	done    chan struct{} // for opOrder: closed when it is carried out
}
