package disk

import "github.com/treadlight/crawl/internal/frontier"

type kind uint8

const (
	opPut kind = iota
	opDone
	opSpent
	opNote  // do stores something else
	opAsk   // do answers a question
	opOrder // somebody waits for what was told before to be committed, and do done; without do, to be on the disk
)

// op is one call, until it is written: a value and not a closure where there is one for each link that is found.
type op struct {
	kind    kind
	dormant bool // opPut
	host    string
	item    frontier.Item
	visit   *frontier.Visit // opDone
	do      func(*writer) error
	done    chan struct{} // opOrder: closed
}
